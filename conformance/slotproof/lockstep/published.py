"""Record of the prefixes in the prefix tree, with their tokens.

No engine reports the tokens in its tree, so the record derives them from snapshots and events. A
published page holds the tokens of its row until the page leaves the tree. Pages with uncertain
tokens are left out: the record never claims more than the tree has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from slotproof.lockstep.client import Client
from slotproof.protocol.config import EngineConfig
from slotproof.protocol.snapshot import Event, Snapshot, differ
from slotproof_model.spec.memory import Move
from slotproof_model.spec.transition import Transition
from slotproof_model.spec.transitions import TRANSITIONS


def transitions_where(holds: Callable[[Transition], object]) -> frozenset[str]:
    """Return the names of the transitions for which ``holds`` is true."""
    return frozenset(name for name, transition in TRANSITIONS.items() if holds(transition))


def moving(move: Move) -> frozenset[str]:
    """Return the transitions that include a memory move of this kind."""
    return transitions_where(lambda transition: any(m.move is move for m in transition.memory))


PUBLISHES, EVICTS = moving(Move.TO_TREE), moving(Move.EVICT)
_ADMITS = transitions_where(lambda transition: transition.stage == "match")
_DOOMS = transitions_where(lambda transition: transition.detaches is not None)
_EVICTS = {"full": "n", "swa": "swa_n"}
"""Name of the event parameter with the number of evicted tokens, by pool."""
Pages = tuple[int, ...]
"""Pages that hold the KV of the same tokens, one page per pool."""


class Published:
    """Prefixes in the prefix tree. A prefix is a sequence of whole pages from position 0."""

    def __init__(self, config: EngineConfig) -> None:
        self.size = config.page_size
        self.ahead = 1 if config.draft else 0
        """Number of tokens after a page that may belong to the page's key. With drafts, an engine
        may use pairs of tokens as keys, as SGLang does for EAGLE."""
        self._prefixes: dict[tuple[int, tuple[int, ...]], int] = {}
        """ID of each prefix, by the ID of its parent prefix and the last page's tokens."""
        self._lies: dict[int, set[Pages]] = {}
        """Pages that hold the last tokens of each prefix, by the prefix's ID."""
        self._holds: dict[Pages, int] = {}
        self._trees: dict[str, frozenset[int]] = {}
        """Pages in the prefix tree, by pool."""
        self._shown: object = None
        """Tree and pools of the snapshot from which ``_trees`` was made."""
        self._certain = True

    def longest(self, prompt: list[int], reserve: int) -> int:
        """Return the number of prompt tokens in the tree, in whole pages before the reserve."""
        prefix, end = 0, self.whole(len(prompt) - reserve)
        for position in range(0, end, self.size):
            prefix = self._prefixes.get((prefix, self._key(prompt, position)), -1)
            if not self._lies.get(prefix):
                return position
        return end

    def whole(self, tokens: int) -> int:
        """Return how many of the first ``tokens`` tokens fill whole pages with complete keys."""
        return max(0, tokens - self.ahead) // self.size * self.size

    def forget(self, now: Snapshot) -> None:
        """Drop the pages evicted in this iteration, even if they hold new KV in the tree by now."""
        before = self._trees
        if self._shown != (shown := (now["tree"], now["pools"].keys())):
            self._shown = shown
            self._trees = {name: frozenset(dict(shown[0].get(name, ()))) for name in now["pools"]}
        gone = {name: before.get(name, frozenset()) - tree for name, tree in self._trees.items()}
        self._certain = all(
            sum(params.get(_EVICTS[pool], 0) for _, _, _, params in _of(now, EVICTS))
            <= self.size * len(pages)
            for pool, pages in gone.items()
        )
        if not self._certain:  # some evicted pages are back in the tree, with unknown tokens
            self._lies.clear()
            self._holds.clear()
        elif any(gone.values()):
            for pages in [held for held in self._holds if not self._there(held)]:
                self._lies[self._holds.pop(pages)].discard(pages)

    def learn(self, before: Snapshot, now: Snapshot, client: Client) -> None:
        """Add the pages published in this iteration, if a row of a snapshot shows the pages."""
        published: dict[str, int] = {}
        for event in _of(now, PUBLISHES) if self._certain else ():
            prompt, output = known_tokens(event[2] or "", before, now, client)
            tokens = prompt + output
            prefix = 0
            for position, pages in self._row(event, before, now, published) if tokens else ():
                key = self._key(tokens, position)
                if len(key) < self.size + self.ahead:
                    break
                prefix = self._prefixes.setdefault((prefix, key), len(self._prefixes) + 1)
                if self._there(pages):
                    self._lies.get(self._holds.get(pages, 0), set()).discard(pages)
                    self._lies.setdefault(prefix, set()).add(pages)
                    self._holds[pages] = prefix

    def _row(
        self, event: Event, before: Snapshot, now: Snapshot, published: dict[str, int]
    ) -> Iterator[tuple[int, Pages]]:
        """Yield the first position of each page of the request's current or last row, with its
        pages. An empty tuple: the tree had the tokens, so the engine freed the page."""
        rid, params = event[2] or "", event[3]
        end = params.get("q", 0)
        if (view := now["requests"].get(rid)) is not None:
            shown, freed = now, range(0)
        elif (view := before["requests"].get(rid)) is not None and not any(
            admitted[2] == rid
            for admitted in _of(now, _ADMITS)  # The request has another row by now.
        ):
            shown, lo = before, published.get(rid, view["Q"])
            dup = max(lo + params.get("dup", 0), max(lo, view["E"]) + params.get("swa_dup", 0))
            freed = range(lo, dup)
        else:
            return
        published[rid] = end
        row: Any = shown["rows"]["used"].get(str(view["row"]), {})
        lists: list[list[int]] = [row.get(pool, []) for pool in self._trees]
        end = min(end, view["A"], *map(len, lists))
        for position in range(0, end - self.size + 1, self.size):
            pages = (indices[position] // self.size for indices in lists)
            yield position, () if position in freed else tuple(pages)

    def _key(self, tokens: list[int], position: int) -> tuple[int, ...]:
        return tuple(tokens[position : position + self.size + self.ahead])

    def _there(self, pages: Pages) -> bool:
        trees = self._trees.values()
        return bool(pages) and all(a in tree for a, tree in zip(pages, trees, strict=True))


def known_tokens(
    rid: str, before: Snapshot, now: Snapshot, client: Client
) -> tuple[list[int], list[int]]:
    """Return the prompt and output of a request, or empty lists if they are uncertain. Both lists
    are empty for a doomed request, whose prompt differs from its client's prompt."""
    sent, shown = client.requests.get(rid), now["requests"].get(rid) or before["requests"].get(rid)
    if sent is None or any(event[2] == rid for event in _of(now, _DOOMS)):
        return [], []
    if sent.reason == "abort" if shown is None else shown["kind"] == "doomed":
        return [], []
    prompt, output = (sent.prompt, sent.output) if sent.answers else (client.prompt_of(rid), [])
    if not isinstance(prompt, list) or not isinstance(output, list):
        return [], []
    return ([], []) if shown and differ(shown["hash"], prompt) else (prompt, output)


def _of(now: Snapshot, transitions: frozenset[str]) -> Iterator[Event]:
    return (event for event in now.get("events", ()) if event[0] in transitions)
