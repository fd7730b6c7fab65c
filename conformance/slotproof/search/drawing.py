"""What is drawn of a request, and the tokens it is once that is known which it refers to.

A prompt that copies an earlier one, or its answer, and a stop token that was an answer's, are
drawn as "the last but two, up to one token past its second page". Which tokens these are is looked
up when the request is sent: so what is drawn depends on nothing that an engine does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hypothesis.strategies import SearchStrategy, builds, integers, one_of, sampled_from, tuples

from slotproof.protocol.config import EngineConfig

SESSIONS = ("s1", "s2", "s3")
"""Where there are more, two events rarely meet in one. A default run with eight missed a pair."""
FAMILIES = 3
"""Prompts of one family share their beginning, so that the prefix tree is used."""
LARGE = 8
"""Pages of so many tokens are larger than most prompts."""
_PAGES = 4
"""A copy leaves its original in one of so many pages."""


def family(number: int, length: int) -> list[int]:
    """The first tokens of a family; never 0, below 200.

    >>> family(0, 3), family(1, 2)
    ([1, 2, 3], [61, 62])
    """
    return [number * 60 + 1 + position % 60 for position in range(length)]


class Chosen(NamedTuple):
    """The session of a turn."""

    session: str
    opened: bool
    """Whether it is opened first where it is not open."""


@dataclass(frozen=True)
class Text:
    """What was said in a request: all of its prompt, and its answer as far as there is one."""

    prompt: list[int]
    answer: list[int]

    @property
    def tokens(self) -> list[int]:
        return self.prompt + self.answer


class Copy(NamedTuple):
    """Which text, from the last one back, up to where, and what stands there instead."""

    back: int
    pages: int
    past: int
    """Tokens from the beginning of that page; -1 is the last one before it."""
    then: str
    """``other``: one token is another; ``swapped``: it and the next change places; both go on as
    the text does. ``family``: a family goes on from there."""


class Limit(NamedTuple):
    """As long as is possible with the tokens it may generate, or a little more or less."""

    of: str
    """``context`` or ``pool``; ``prompt``: it alone is as long as the smaller of them."""
    over: int


class Prompt(NamedTuple):
    """What is drawn of a prompt: the beginning of a family, of another prompt, or up to a limit."""

    family: int
    length: int
    how: Copy | Limit | None = None

    def tokens(
        self, past: list[int], texts: Sequence[Text], config: EngineConfig, max_new: int
    ) -> list[int]:
        """The new tokens of a turn whose session has said ``past``.

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
            return family(self.family, max(0, most - len(past) - new + self.how.over))
        if self.how is None or not texts:
            return family(self.family, self.length)
        fit = following(past, texts)
        text = (fit or texts)[-1 - self.how.back % len(fit or texts)].tokens[
            len(past) if fit else 0 :
        ]
        page = config.page_size
        start = len(past) % page if fit else 0  # positions of the text are those of the row
        pages = self.how.pages % (len(text) // page + 1)
        cut = max(0, pages * page + self.how.past - start)
        if cut >= len(text) or self.how.then == "family":
            return text[:cut] + family(self.family, self.length)
        rest = text[cut:]
        if self.how.then == "swapped" and len(rest) > 1:
            rest[:2] = rest[1], rest[0]
        else:
            rest[0] = another(rest[0])
        return text[:cut] + rest[: 1 + self.length]


class Again(NamedTuple):
    """An earlier prompt once more, to be stopped by a token of the answer that it had."""

    back: int
    place: int
    otherwise: int
    """The stop token where there is no such prompt."""
    other: str = ""
    """Where that one stands as well: ``before`` or ``after`` the other."""

    def of(self, past: list[int], texts: Sequence[Text]) -> tuple[list[int], list[int]] | None:
        """The whole prompt, and the stop tokens, for a session that has said ``past``.

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
    """Two texts of which the second goes on where the first one ended, with its last token or
    without.

    >>> first, other = Text([1], [8, 9]), Text([1, 8, 9, 2], [5])
    >>> conversations([other, first]) == [(first, other)]
    True
    """
    said = [each for each in texts if each.answer]
    return [
        (first, then)
        for first in said
        for then in said
        if len(then.prompt) >= len(first.tokens)
        and then.prompt[: len(first.tokens) - 1] == first.tokens[:-1]
    ]


def another(token: int) -> int:
    """Not that one, and below 200.

    >>> another(1), another(199), another(249)
    (2, 1, 51)
    """
    return token % 199 + 1


def following(past: list[int], texts: Sequence[Text]) -> list[Text]:
    """Those that begin with what a session has said, and go on."""
    count = len(past)
    return [each for each in texts if len(each.tokens) > count and each.tokens[:count] == past]


def lengths(page: int) -> SearchStrategy[int]:
    """Of prompts; where pages are large, some that end beside the end of a page."""
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
    *(Limit(of, over) for of in ("context", "pool") for over in (-1, 0, 1)),
    Limit("pool", 3),
    Limit("prompt", 0),
]
_share = len(_COPIES) // len(_LIMITS) // 4
_hows = sampled_from([*_COPIES, *_LIMITS * _share, *[None] * len(_COPIES)])
"""Drawn at once: a prompt is drawn more often than anything else."""


def prompts(lengths: SearchStrategy[int], families: SearchStrategy[int]) -> SearchStrategy[Prompt]:
    """Of nine, four copy an earlier one, four are of the length that is drawn, and one is as long
    as a limit allows."""
    return builds(Prompt, families, lengths, _hows)


repeats = builds(
    Again, integers(0, 3), integers(0, 5), integers(1, 240), sampled_from(["", "before", "after"])
)
sessions = sampled_from(SESSIONS)
chosen = sampled_from(
    [Chosen(session, opened) for session in SESSIONS for opened in (True, True, True, False)]
)
families = integers(0, FAMILIES - 1)
new_tokens = one_of(integers(1, 6), integers(0, 12))
draft_sizes = tuples(integers(1, 12), integers(0, 6))
"""Tokens allocated and committed; cut to what the configuration's drafts can do."""
