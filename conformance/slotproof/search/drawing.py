"""Drawn requests, and the lookup of their tokens when a request is sent.

A prompt may copy an earlier prompt or answer, and a stop token may come from an earlier answer. A
copy is drawn as "the last text but two, up to one token past its second KV page". The tokens are
looked up when the request is sent. So the draw does not depend on the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hypothesis.strategies import SearchStrategy, builds, integers, one_of, sampled_from, tuples

from slotproof.protocol.config import EngineConfig

SESSIONS = ("s1", "s2", "s3")
"""Session names. Eight names were too many: two events rarely shared a session."""
FAMILIES = 3
"""Number of prompt families. Prompts of a family share a prefix, and so hit the prefix tree."""
LARGE = 8
"""Smallest page size, in tokens, that is longer than most prompts."""
_PAGES = 4
"""Largest number of whole pages that a copy shares with its original."""


def family(number: int, length: int) -> list[int]:
    """Return the first ``length`` tokens of a family. Every token is above 0 and below 200.

    >>> family(0, 3), family(1, 2)
    ([1, 2, 3], [61, 62])
    """
    return [number * 60 + 1 + position % 60 for position in range(length)]


class Chosen(NamedTuple):
    """Session of a turn."""

    session: str
    opened: bool
    """True to open the session first if it is not open."""


@dataclass(frozen=True)
class Text:
    """Text of a request: its whole prompt, and its answer so far."""

    prompt: list[int]
    answer: list[int]

    @property
    def tokens(self) -> list[int]:
        return self.prompt + self.answer


class Copy(NamedTuple):
    """Copy of an earlier text with a new end. ``back``: number of texts after the original."""

    back: int
    pages: int
    past: int
    """Tokens copied beyond ``pages`` whole pages. -1: the last whole page lacks its last token."""
    then: str
    """End of the copy. ``other``: one token changes. ``swapped``: two tokens trade places. After
    the change, the original continues. ``family``: tokens of a family follow."""


class Limit(NamedTuple):
    """Length of a turn, including the tokens to generate: at, slightly above or below a limit."""

    of: str
    """Limit: ``context`` or ``pool``. ``prompt``: the prompt alone reaches the smaller limit.
    ``page``: the turn ends at the first page boundary at or after its drawn length."""
    over: int


class Prompt(NamedTuple):
    """Drawn prompt: the beginning of a family, a copy of a text, or a length at a limit."""

    family: int
    length: int
    how: Copy | Limit | None = None

    def tokens(
        self, past: list[int], texts: Sequence[Text], config: EngineConfig, max_new: int
    ) -> list[int]:
        """Return the new tokens of a turn in a session with history ``past``.

        >>> said, config = [Text([1, 2, 3, 4, 5], [9])], EngineConfig(page_size=4)
        >>> for past in (0, -1, 2):
        ...     Prompt(1, 2, Copy(0, 1, past, "other")).tokens([], said, config, 1)
        [1, 2, 3, 4, 6, 9]
        [1, 2, 3, 5, 5, 9]
        [1, 2, 3, 4, 5, 9, 61, 62]
        """
        if isinstance(self.how, Limit):
            most = config.context_len
            if self.how.of != "context":
                most = min(most, config.total_tokens)
            new = max_new if self.how.of != "prompt" else 0
            if self.how.of == "page":
                drawn = len(past) + self.length + new
                most = drawn + -drawn % config.page_size
            return family(self.family, max(0, most - len(past) - new + self.how.over))
        if self.how is None or not texts:
            return family(self.family, self.length)
        fit = following(past, texts)
        known = fit or texts
        text = known[-1 - self.how.back % len(known)].tokens[len(past) if fit else 0 :]
        page = config.page_size
        start = len(past) % page if fit else 0  # Page boundaries count from the start of ``past``.
        cut = max(0, self.how.pages % (len(text) // page + 1) * page + self.how.past - start)
        if cut >= len(text) or self.how.then == "family":
            return text[:cut] + family(self.family, self.length)
        rest = text[cut:]
        if self.how.then == "swapped" and len(rest) > 1:
            rest[:2] = rest[1], rest[0]
        else:
            rest[0] = another(rest[0])
        return text[:cut] + rest[: 1 + self.length]


class Again(NamedTuple):
    """An earlier prompt, sent again with a stop token taken from its first answer."""

    back: int
    place: int
    otherwise: int
    """Stop token to use if no earlier prompt fits."""
    other: str = ""
    """Place of ``otherwise``: ``before`` or ``after`` the stop token. Empty: not sent."""

    def of(self, past: list[int], texts: Sequence[Text]) -> tuple[list[int], list[int]] | None:
        """Return the whole prompt and the stop tokens for a session with history ``past``.

        >>> Again(0, 4, 7, "before").of([1], [Text([1, 2], [8, 9]), Text([3, 4], [5])])
        ([1, 2], [7, 8])
        """
        count = len(past)
        fit = [t for t in texts if t.answer and len(t.prompt) > count and t.prompt[:count] == past]
        if not fit:
            return None
        text = fit[-1 - self.back % len(fit)]
        stop = text.answer[self.place % len(text.answer)]
        stops = {"before": [self.otherwise, stop], "after": [stop, self.otherwise]}
        return text.prompt, stops.get(self.other, [stop])


def conversations(texts: Sequence[Text]) -> list[tuple[Text, Text]]:
    """Return pairs of texts. The second begins with the first, or with all but its last token.

    >>> first, other = Text([1], [8, 9]), Text([1, 8, 9, 2], [5])
    >>> conversations([other, first]) == [(first, other)]
    True
    """
    answered = [text for text in texts if text.answer]
    return [
        (first, then)
        for first in answered
        for then in answered
        if len(then.prompt) >= len(first.tokens)
        and then.prompt[: len(first.tokens) - 1] == first.tokens[:-1]
    ]


def another(token: int) -> int:
    """Return a different token, below 200.

    >>> another(1), another(199), another(249)
    (2, 1, 51)
    """
    return token % 199 + 1


def following(past: list[int], texts: Sequence[Text]) -> list[Text]:
    """Return texts that continue a session's history."""
    count = len(past)
    return [text for text in texts if len(text.tokens) > count and text.tokens[:count] == past]


def lengths(page: int) -> SearchStrategy[int]:
    """Draw lengths of prompts. With large pages, some lengths are at or next to a page boundary."""
    short, long = integers(0, 10), integers(0, 24)
    if page < LARGE:
        return one_of(short, long)
    ends = [many * page + beside for many in (1, 2) for beside in (-1, 0, 1)]
    return one_of(short, long, sampled_from(ends))


_COPIES = [
    Copy(back, pages, past, then)
    for back in range(5)
    for pages in range(_PAGES + 1)
    for past in (-1, 0, 0, 1, 2, 3, 5)
    for then in ("other", "other", "swapped", "family")
]
_LIMITS = [
    *(Limit(of, over) for of in ("context", "pool", "page") for over in (-1, 0, 1)),
    Limit("pool", 3),
    Limit("prompt", 0),
]
_share = len(_COPIES) // len(_LIMITS) // 4
_hows = sampled_from([*_COPIES, *_LIMITS * _share, *[None] * len(_COPIES)])
"""Ways to make a prompt. One draw picks the way, because prompts are the most frequent draws."""


def prompts(lengths: SearchStrategy[int], families: SearchStrategy[int]) -> SearchStrategy[Prompt]:
    """Draw prompts: four of nine copy a text, four have the drawn length, and one is at a limit."""
    return builds(Prompt, families, lengths, _hows)


repeats = builds(
    Again, integers(0, 3), integers(0, 5), integers(1, 240), sampled_from(["", "before", "after"])
)
sessions = sampled_from(SESSIONS)
opened = (True, True, True, False)
chosen = sampled_from([Chosen(session, is_open) for session in SESSIONS for is_open in opened])
families = integers(0, FAMILIES - 1)
new_tokens = one_of(integers(1, 6), integers(0, 12))
draft_sizes = tuples(integers(1, 12), integers(0, 6))
"""Numbers of draft tokens to allocate and to commit, before the rules cap both numbers."""
