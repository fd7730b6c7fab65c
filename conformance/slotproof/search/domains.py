"""What an argument of a rule is drawn from: by Hypothesis, or by a ``random.Random``.

One description for both. Hypothesis' own strategies take most of the time of a campaign, which is
what guided search can't afford; and it draws anew where a guided search goes on from what it has:
:meth:`Domain.near` changes a value a little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol, cast

from hypothesis import strategies as st


class Domain(Protocol):
    """Values of one kind."""

    @property
    def strategy(self) -> st.SearchStrategy[Any]:
        """As Hypothesis draws them."""

    def draw(self, random: Random) -> Any:
        """Any of them, with the same weights."""

    def near(self, random: Random, value: Any) -> Any:
        """One of them that differs a little, as far as there is such."""

    def holds(self, value: object) -> bool:
        """Whether it is one of them: a journal may say anything."""


class Whole:
    """Integers from low to high, both included."""

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high
        self.strategy: st.SearchStrategy[int] = st.integers(low, high)

    def draw(self, random: Random) -> int:
        return self.low + int(random.random() * (self.high - self.low + 1))

    def near(self, random: Random, value: int) -> int:
        if random.random() < 0.5:
            return self.draw(random)
        return min(self.high, max(self.low, value + (1 if random.random() < 0.5 else -1)))

    def holds(self, value: object) -> bool:
        return type(value) is int and self.low <= value <= self.high


class Among:
    """One of some values, which may be there several times."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = values
        truth = len(values) == 2 and values[0] is False
        self.strategy = cast(
            "st.SearchStrategy[Any]", st.booleans() if truth else st.sampled_from(values)
        )

    def draw(self, random: Random) -> Any:
        return self.values[int(random.random() * len(self.values))]

    def near(self, random: Random, value: Any) -> Any:
        del value
        return self.draw(random)

    def holds(self, value: object) -> bool:
        return any(type(each) is type(value) and each == value for each in self.values)


class Always(Among):
    """One value; it takes nothing from what is random."""

    def __init__(self, value: Any) -> None:
        super().__init__([value])
        self.strategy = st.just(value)

    def draw(self, random: Random) -> Any:
        del random
        return self.values[0]


class Either(Among):
    """Of one of some domains, each as often."""

    def __init__(self, *domains: Domain) -> None:
        super().__init__(domains)
        self.strategy = st.one_of(*(each.strategy for each in domains))

    def draw(self, random: Random) -> Any:
        return super().draw(random).draw(random)

    def holds(self, value: object) -> bool:
        return any(each.holds(value) for each in self.values)


class Built:
    """What is made of a value of each domain: a named tuple, of which one field is changed."""

    def __init__(self, make: Callable[..., Any], *domains: Domain) -> None:
        self.make, self.domains = make, domains
        self.strategy: st.SearchStrategy[Any] = st.builds(
            make, *(each.strategy for each in domains)
        )

    def draw(self, random: Random) -> Any:
        return self.make(*(each.draw(random) for each in self.domains))

    def near(self, random: Random, value: tuple[Any, ...]) -> Any:
        place = int(random.random() * len(self.domains))
        fields = list(value)
        fields[place] = self.domains[place].near(random, fields[place])
        return self.make(*fields)

    def holds(self, value: object) -> bool:
        kind = self.make if isinstance(self.make, type) else tuple
        return (
            type(value) is kind
            and isinstance(value, tuple)
            and len(value) == len(self.domains)
            and all(of.holds(part) for of, part in zip(self.domains, value, strict=True))
        )


class Pair(Built):
    """A value of each of two domains."""

    def __init__(self, first: Domain, second: Domain) -> None:
        super().__init__(lambda *both: both, first, second)
        self.strategy = st.tuples(first.strategy, second.strategy)


class Several:
    """One to so many."""

    def __init__(self, domain: Domain, most: int) -> None:
        self.domain, self.most = domain, most
        self.strategy: st.SearchStrategy[Any] = st.lists(domain.strategy, min_size=1, max_size=most)

    def draw(self, random: Random) -> tuple[Any, ...]:
        count = 1 + int(random.random() * self.most)
        return tuple(self.domain.draw(random) for _ in range(count))

    def near(self, random: Random, value: tuple[Any, ...]) -> tuple[Any, ...]:
        changed = list(value)
        place = int(random.random() * (len(value) + 1))
        if place < len(value):
            changed[place] = self.domain.near(random, changed[place])
        elif len(value) < self.most:
            changed.append(self.domain.draw(random))
        else:
            changed.pop()
        return tuple(changed)

    def holds(self, value: object) -> bool:
        return (
            type(value) is tuple and len(value) <= self.most and all(map(self.domain.holds, value))
        )
