"""Lists of actions: drawn afresh, or made of such as reached something new.

An action is a rule and its arguments, not yet the commands that it becomes: "copy the last prompt
but two, up to its second page" stays meaningful wherever it is put, and who is asked to do it gives
requests their names. So every list of actions is valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from slotproof.search.drawing import Again, Chosen, Copy, Limit, Prompt
from slotproof.search.rules import Rule


@dataclass(frozen=True)
class Action:
    """A rule and its arguments."""

    rule: str
    arguments: dict[str, Any]

    def to_json(self) -> list[Any]:
        """Its rule and its arguments.

        >>> Action("abort", {"back": 1, "live": True}).to_json()
        ['abort', {'back': 1, 'live': True}]
        >>> Action("plain", {"prompt": Prompt(1, 2, Limit("pool", 0)), "new": 4}).to_json()
        ['plain', {'prompt': ['Prompt', 1, 2, ['Limit', 'pool', 0]], 'new': 4}]
        """
        return [self.rule, {name: _to_json(value) for name, value in self.arguments.items()}]

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> Action:
        """The action again.

        >>> action = Action("turn", {"who": Chosen("s1", True), "prompt": Prompt(0, 3), "new": 1})
        >>> Action.from_json(action.to_json()) == action
        True
        """
        rule, arguments = data
        return cls(rule, {name: _from_json(value) for name, value in arguments.items()})


_KINDS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (Again, Chosen, Copy, Limit, Prompt)
}


def _to_json(value: Any) -> Any:
    if not isinstance(value, (list, tuple)):
        return value
    kind = type(value).__name__
    return [*([kind] if kind in _KINDS else []), *map(_to_json, value)]


def _from_json(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    if value and value[0] in _KINDS:
        return _KINDS[value[0]](*map(_from_json, value[1:]))
    return tuple(map(_from_json, value))


class Drawing:
    """Draws lists of actions: nothing else of a guided search is random."""

    def __init__(self, rules: Sequence[Rule], steps: int, random: Random) -> None:
        self.rules, self.steps, self.random = {each.name: each for each in rules}, steps, random
        self.swarm: list[Rule] = []

    def takes(self, action: Action) -> bool:
        """Whether it could have been drawn. What could not, as a journal may have it, is no part of
        an example."""
        rule = self.rules.get(action.rule)
        return (
            rule is not None
            and rule.fields.keys() == action.arguments.keys()
            and all(rule.fields[name].holds(value) for name, value in action.arguments.items())
        )

    def below(self, count: int) -> int:
        return int(self.random.random() * count)

    def restrict(self) -> None:
        """From now on only some of the rules are drawn: which ones, and how often, differs from
        one example to the next, so that each has more of what it has (swarm testing)."""
        away = self.random.random()
        kept = [each for each in self.rules.values() if self.random.random() >= away]
        self.swarm = kept or list(self.rules.values())

    def action(self) -> Action:
        rule = self.swarm[self.below(len(self.swarm))]
        fields = rule.fields.items()
        return Action(rule.name, {name: domain.draw(self.random) for name, domain in fields})

    def fresh(self) -> list[Action]:
        """A list of its own."""
        self.restrict()
        return [self.action() for _ in range(self.steps)]

    def mutated(self, parents: Sequence[Sequence[Action]]) -> list[Action]:
        """One that was kept, changed in some places."""
        self.restrict()
        actions = list(parents[self.below(len(parents))])
        changes = 1
        while self.random.random() < 0.5:
            changes += 1
        for _ in range(changes):
            self.change(actions, parents)
        return actions[: self.steps] or [self.action()]

    def change(self, actions: list[Action], parents: Sequence[Sequence[Action]]) -> None:
        place, how = self.below(len(actions) + 1), self.below(6)
        if how == 0:
            del actions[place : place + 1 + self.below(6)]
        elif how == 1:
            actions[place:place] = [self.action() for _ in range(1 + self.below(4))]
        elif how == 2:
            start = self.below(len(actions) + 1)
            actions[place:place] = actions[start : start + 1 + self.below(6)]
        elif how == 3 and place < len(actions):
            other = self.below(len(actions))
            actions[place], actions[other] = actions[other], actions[place]
        elif how == 4:
            for index in range(place, min(len(actions), place + 1 + self.below(3))):
                actions[index] = self.near(actions[index])
        elif how == 5:
            tail = parents[self.below(len(parents))]
            actions[place:] = tail[self.below(len(tail) + 1) :]
            while len(actions) < self.steps and self.random.random() < 0.9:
                actions.append(self.action())

    def near(self, action: Action) -> Action:
        """The same with an argument changed a little."""
        if not (names := list(action.arguments)):
            return self.action()
        name = names[self.below(len(names))]
        domain = self.rules[action.rule].fields[name]
        changed = domain.near(self.random, action.arguments[name])
        return Action(action.rule, {**action.arguments, name: changed})
