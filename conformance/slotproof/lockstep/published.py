"""What was published to the prefix tree and is still there, as clients know its tokens.

No engine says so; snapshots and events show it: a page of a row whose tokens went to the tree
holds them for as long as the tree has it. What is known is never more than what there is: a page
of which anything is uncertain is not known.
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
    """The transitions of which that holds, by name."""
    return frozenset(name for name, each in TRANSITIONS.items() if holds(each))


def moving(move: Move) -> frozenset[str]:
    """The transitions that make such a move of memory."""
    return transitions_where(lambda each: any(made.move is move for made in each.memory))


PUBLISHES, EVICTS = moving(Move.TO_TREE), moving(Move.EVICT)
_ADMITS = transitions_where(lambda each: each.stage == "match")
_DOOMS = transitions_where(lambda each: each.detaches is not None)
_EVICTS = {"full": "n", "swa": "swa_n"}
"""By pool, the parameter that says how many tokens."""
Pages = tuple[int, ...]
"""One of each pool that there is: where the KV of the same tokens lies."""


class Published:
    """Prefixes that lie in the tree, from the first page to the last."""

    def __init__(self, config: EngineConfig) -> None:
        self.size = config.page_size
        self.ahead = 1 if config.draft else 0
        """Tokens past a page that may be part of its key: where drafts are made an engine may
        file pairs of tokens, as SGLang does for EAGLE."""
        self._prefixes: dict[tuple[int, tuple[int, ...]], int] = {}
        """A prefix, by the one a page shorter (0: none) and the tokens of its last page."""
        self._lies: dict[int, set[Pages]] = {}
        """Where the last page of a prefix lies."""
        self._holds: dict[Pages, int] = {}
        self._trees: dict[str, frozenset[int]] = {}
        """By pool, the pages of the tree."""
        self._shown: object = None
        """The tree and the pools of which they are."""
        self._certain = True

    def longest(self, prompt: list[int], reserve: int) -> int:
        """Tokens of whole pages of the prompt, but for the reserve, that are there."""
        prefix, end = 0, self.whole(len(prompt) - reserve)
        for position in range(0, end, self.size):
            prefix = self._prefixes.get((prefix, self._key(prompt, position)), -1)
            if not self._lies.get(prefix):
                return position
        return end

    def whole(self, tokens: int) -> int:
        """Tokens of the whole pages of so many that can be found again."""
        return max(0, tokens - self.ahead) // self.size * self.size

    def forget(self, now: Snapshot) -> None:
        """What left the tree in this iteration, even if it is there again."""
        before = self._trees
        if self._shown != (shown := (now["tree"], now["pools"].keys())):
            self._shown = shown
            self._trees = {
                name: frozenset(page for page, _ in shown[0].get(name, ())) for name in now["pools"]
            }
        gone = {name: before.get(name, frozenset()) - tree for name, tree in self._trees.items()}
        self._certain = all(
            sum(params.get(_EVICTS[pool], 0) for _, _, _, params in _of(now, EVICTS))
            <= self.size * len(pages)
            for pool, pages in gone.items()
        )
        if not self._certain:  # some came back, and may hold something else
            self._lies.clear()
            self._holds.clear()
        elif any(gone.values()):
            for pages in [each for each in self._holds if not self._there(each)]:
                self._lies[self._holds.pop(pages)].discard(pages)

    def learn(self, before: Snapshot, now: Snapshot, client: Client) -> None:
        """What went to the tree in this iteration, as far as a row shows where it lies."""
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
        """Positions at which pages begin, and the pages, as the row is, or was last: none where the
        tree had these tokens and the row's page was freed."""
        rid, params = event[2] or "", event[3]
        end = params.get("q", 0)
        if (view := now["requests"].get(rid)) is not None:
            shown, freed = now, range(0)
        elif (view := before["requests"].get(rid)) is not None and not any(
            each[2] == rid
            for each in _of(now, _ADMITS)  # it has another row by then
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
            pages = (each[position] // self.size for each in lists)
            yield position, () if position in freed else tuple(pages)

    def _key(self, tokens: list[int], position: int) -> tuple[int, ...]:
        return tuple(tokens[position : position + self.size + self.ahead])

    def _there(self, pages: Pages) -> bool:
        trees = self._trees.values()
        return bool(pages) and all(a in tree for a, tree in zip(pages, trees, strict=True))


def known_tokens(
    rid: str, before: Snapshot, now: Snapshot, client: Client
) -> tuple[list[int], list[int]]:
    """Prompt and output of a request, as far as its client knows them for certain: what is doomed
    has another prompt."""
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
