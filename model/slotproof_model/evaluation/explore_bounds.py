"""How far the explore reading looks: the bounds, and the parameters within them.

A bound set says who is there (sessions, requests without one), how much memory
there is, and which numbers clients, scheduler and tree may choose. Within it
nothing is sampled: every value that the guards allow is tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from slotproof_model.evaluation.layout import INDEX, Values, initial_pools
from slotproof_model.evaluation.world import Constants
from slotproof_model.spec.profiles import PROFILES

_HISTORY, _OUTPUT = INDEX["session.history"], INDEX["req.output"]
_EVICTABLE, _PROTECTED = INDEX["full.evictable"], INDEX["full.protected"]
_SWA_EVICTABLE, _SWA_PROTECTED = INDEX["swa.evictable"], INDEX["swa.protected"]


@dataclass(frozen=True)
class Bounds:
    """One closed little world. Lengths in tokens unless they say pages."""

    name: str = ""
    sessions: int = 2
    requests: int = 1
    """Requests without a session, stubs and doomed turns included."""
    page_size: int = 1
    pages: int = 6
    """Of the full pool, and of the sliding-window pool where there is one."""
    tree: int = 6
    """Pages that the prefix tree may hold, of either pool."""
    rows: int = 2
    width: int = 3
    """Positions of a row: bounds every KV length."""
    new: tuple[int, ...] = (1,)
    """How many tokens a turn may add to the history."""
    prompt: tuple[int, ...] = (1,)
    """Prompt lengths of requests without a session."""
    output: int = 1
    """Output tokens of a request at most; speculative overshoot counts."""
    history: int = 2
    """A session takes no turn beyond it."""
    draft: int = 0
    """Tokens that a speculative round allocates or commits at most; 0: plain decoding."""
    window: int = 0
    profile: str = "reference"
    depth: int | None = None
    """Transitions from the initial state; ``None``: until nothing new is found."""

    @property
    def tokens(self) -> int:
        return self.pages * self.page_size

    @property
    def constants(self) -> Constants:
        return Constants(self.page_size, self.width, self.window, PROFILES[self.profile])

    @property
    def pools(self) -> Values:
        """The initial figures."""
        return initial_pools(self.tokens, self.tokens if self.window else 0, self.rows)

    def values(self, name: str) -> Sequence[int]:
        """Every value that a parameter may have here; the guards choose among them.

        >>> list(Bounds(page_size=2, pages=2).values("u"))
        [0, 2, 4]
        """
        if name.startswith("swa_") and not self.window:
            return (0,)
        one_by_one: dict[str, Sequence[int]] = {
            "row": (0,),  # rows are interchangeable: every actor calls its own 0
            "new": self.new,
            "prompt": self.prompt,
            "sampled": (0, 1),
            "t": range(self.width + 1),
            "d": range(self.draft + 1) if self.draft else (1,),
            "k": range(self.draft + 1) if self.draft else (1,),
            "F": range(self.output + 1),
        }
        return one_by_one.get(name) or range(0, self.tokens + 1, self.page_size)

    def allows(self, after: Sequence[int]) -> bool:
        """Whether a vector is within the bounds that no guard knows of."""
        return (
            after[_HISTORY] <= self.history
            and after[_OUTPUT] <= self.output
            and after[_EVICTABLE] + after[_PROTECTED] <= self.tree * self.page_size
            and after[_SWA_EVICTABLE] + after[_SWA_PROTECTED] <= self.tree * self.page_size
        )


def default(**changes: int) -> list[Bounds]:
    """The default bound sets with fields replaced in all of them.

    Another page size takes the lengths along, so that as many pages are filled.
    """
    result = []
    for bounds in DEFAULT:
        new, old = changes.get("page_size", bounds.page_size), bounds.page_size
        scaled = replace(
            bounds,
            width=-(-bounds.width * new // old),
            history=-(-bounds.history * new // old),
            new=tuple(-(-length * new // old) for length in bounds.new),
            prompt=tuple(-(-length * new // old) for length in bounds.prompt),
        )
        result.append(replace(scaled, **changes))  # type: ignore[arg-type]  # sizes only
    return result


DEFAULT: tuple[Bounds, ...] = (
    Bounds("two-sessions", tree=1, width=2, history=1, output=0),
    Bounds("turn-by-turn", requests=0, pages=3, tree=1, width=2),
    Bounds("pages", sessions=1, page_size=2, pages=4, tree=2, width=4, new=(2,), prompt=(3,),
           history=3),
    Bounds("drafts", sessions=1, requests=0, page_size=2, tree=2, width=4, new=(1, 2),
           history=3, draft=2),
    Bounds("window", sessions=1, requests=0, tree=1, width=3, window=1),
    Bounds("window-pages", sessions=1, requests=0, page_size=2, tree=2, width=4, new=(2,),
           window=1),
    Bounds("wipe", sessions=1, tree=2, width=2, profile="wipe"),
    Bounds("overlap", sessions=1, requests=0, tree=2, width=3, draft=1, profile="overlap"),
    Bounds("publish", sessions=1, requests=0, tree=2, width=2, profile="sglang-records"),
    Bounds("lent", sessions=1, requests=0, tree=2, width=2, profile="vllm"),
)  # fmt: skip
"""Chosen so that together they reach every transition and both outcomes of every guard: many
actors with little KV, one session with whole pages and speculative slack, the sliding window, and
the choices of the profiles."""
