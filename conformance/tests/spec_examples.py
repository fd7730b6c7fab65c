"""Worked examples of the transitions' pages: steps of the spec on pages with names.

``python -m tests.spec_examples`` (in ``conformance/``) writes them for ``slotproof docs``. A story
is a sequence of transitions from an empty engine on. `Paged` computes each step and checks guards,
rules and invariants. The environment chooses the lowest free page and the lowest tree page.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from string import ascii_letters
from typing import NamedTuple

from slotproof_model.evaluation.layout import LAYOUT
from slotproof_model.evaluation.world import Constants
from slotproof_model.spec.memory import Move
from slotproof_model.spec.profiles import Choices, Profile
from slotproof_model.spec.state import MATCHED
from slotproof_model.spec.transitions import TRANSITIONS
from slotproof_model.text.idioms import words_of
from tests.checks.paged import Choice, Layer, Paged

FILE = Path(__file__).parents[1] / "slotproof" / "spec_documents" / "examples.json"
PAGE = 2
"""Tokens of a KV page."""
PAGES = 8
"""KV pages of each pool. They are named a to h, and A to H in the sliding-window pool."""
SLACK = 4
"""Positions that a decoding round may allocate past the KV that it computes."""
_FIRST_LETTER = {"full": ascii_letters.index("a"), "swa": ascii_letters.index("A")}
_EMPTY = ("–", "0", "none", "absent", "no_row")
_TITLES = {"full": "", "swa": " of the sliding-window pool"}


class Story(NamedTuple):
    """Lines ``actor transition parameters``, from an empty engine. Parameters left out are 0."""

    steps: str
    choices: Choices = Choices()
    window: int = 0


STORIES = (
    Story("""
        r1 T-PLAIN-SUBMIT prompt=4
        r1 T-MATCH
        r1 T-EXTEND t=4 sampled=1 told=1
        r1 T-INSERT q=4 locked=4
        r1 T-DECODE at=5 d=1 k=1 told=1
        r1 T-PLAIN-FINISH q=4 u=4
        s T-OPEN
        s T-SUBMIT new=7
        s T-MATCH m=4 locked=4
        s T-REFUSE u=4
        s T-MATCH m=4 locked=4
        s T-EXTEND t=6
        s T-PARK
        s T-EXTEND t=7 sampled=1 told=1
        s T-DECODE at=8 d=5 k=1 told=1
        s T-SAVE
        s T-SUBMIT new=1
        s/r2 T-REJECT prompt=3
        s T-RESTORE
        s T-EXTEND t=10 sampled=1 told=1
        s T-DECODE at=11 d=1 k=1 told=1
        s T-RETRACT
        s T-ABORT-PARTIAL
        s T-SUBMIT new=1
        s T-ABORT-WAITING
        s T-SUBMIT new=9
        s/r3 T-DOOM prompt=18
        s T-SUBMIT new=1
        s T-CLOSE-DEFER
        s T-RESTORE
        s T-EXTEND t=10
        s T-ABORT u=4
        s T-REAP
        -- T-EVICT n=2
    """),
    Story("""
        s T-OPEN
        s T-SUBMIT new=3
        s T-MATCH
        s T-EXTEND t=3 sampled=1 told=1
        s T-INSERT q=2 locked=2
        s T-SAVE
        s T-DISCARD u=2
        s T-SUBMIT new=2
        s T-MATCH m=2 locked=2
        s T-EXTEND t=6 sampled=1 told=1
        s T-SAVE
        s T-CLOSE u=2
        s T-OPEN
        s T-SUBMIT new=3
        s T-MATCH
        s T-EXTEND t=3 sampled=1 told=1
        s T-SAVE
        s T-REAP
        r1 T-PLAIN-SUBMIT prompt=5
        r1 T-MATCH m=2 locked=2
        r1 T-EXTEND t=5 sampled=1 told=1
        r1 T-PLAIN-RETRACT u=2
        r1 T-MATCH m=2 locked=2
        r1 T-EXTEND t=4
        r1 T-PLAIN-ABORT u=2
        s T-OPEN
        s T-SUBMIT new=5
        s T-MATCH m=2 locked=2
        s T-EXTEND t=5 sampled=1 told=1
        s T-OOM u=2
    """),
    Story(
        """
        s T-OPEN
        s T-SUBMIT new=3
        s T-MATCH
        s T-EXTEND t=3 sampled=1 told=1
        s T-RETRACT-WIPE
    """,
        {"retract_keeps": False},
    ),
    Story(
        """
        s T-OPEN
        s T-SUBMIT new=5
        s T-MATCH
        s T-EXTEND t=5 sampled=1 told=1
        s T-ABORT-PUBLISH q=4
    """,
        {"abort_publishes": True},
    ),
    Story(
        """
        s T-OPEN
        s T-SUBMIT new=4
        s T-MATCH
        s T-EXTEND t=4
        s T-LAUNCH d=1 k=1
        s T-RESULT at=4 sampled=1 told=1
    """,
        {"overlap": True},
    ),
    Story(
        """
        s T-OPEN
        s T-SUBMIT new=4
        s T-MATCH
        s T-EXTEND t=4
        s T-LAUNCH d=1 k=1
        s T-RETRACT-WIPE
        s T-LATE-RESULT at=4 sampled=1
        s T-LATE-RESULT at=5 sampled=1
        s T-LATE-FINISH
    """,
        {"overlap": True, "retract_keeps": False},
    ),
    Story(
        """
        s T-OPEN
        s T-SUBMIT new=6
        s T-MATCH
        s T-EXTEND t=6 sampled=1 told=1
        s T-SWA-ADVANCE e=4
    """,
        window=2,
    ),
)


@dataclass(frozen=True)
class Example:
    """One transition of a story. ``changes`` has the changed things, each with both values."""

    params: Mapping[str, int]
    changes: tuple[tuple[str, str, str], ...]
    same: tuple[tuple[str, str], ...]
    """Pages and variables of the actor, without empty ones, if the transition changes nothing."""
    window: bool
    """True if the story has a sliding-window pool."""


@cache
def examples() -> dict[str, Example]:
    """Return one example for each transition: from all stories, the one with the most changes.

    >>> examples()["T-EVICT"].changes[0]
    ('free list', 'c, d, e, f, g, h', 'a, c, d, e, f, g, h')
    """
    best: dict[str, Example] = {}
    for story in STORIES:
        for transition, example in steps(story):
            old = best.setdefault(transition, example)
            if len(example.changes) > len(old.changes):
                best[transition] = example
    return best


def steps(story: Story) -> Iterator[tuple[str, Example]]:
    """Yield each transition and its example. Raise ``ValueError`` if the spec forbids it."""
    tokens = PAGE * PAGES
    profile = Profile("", "", "reference", story.choices)
    constants = Constants(PAGE, tokens, story.window, profile, SLACK)
    world = Paged(constants, tokens, tokens if story.window else 0, 2)
    for line in story.steps.strip().splitlines():
        actor, id_, *pairs = line.split()
        chosen = {name: int(number) for name, _, number in (pair.partition("=") for pair in pairs)}
        params = {name: chosen.get(name, 0) for name in TRANSITIONS[id_].names}
        first, _, second = actor.partition("/")
        sid, rid = (None, first) if first.startswith("r") else (first, second or None)
        key = world.world.key(id_, sid, rid) or ""
        before = _view(world, key)
        choices = {pool: _choice(layer, id_, params) for pool, layer in world.layers.items()}
        problems = world.do(id_, sid, rid, params, choices)
        if problems:
            raise ValueError(f"{line.strip()}: {', '.join(problems)}")
        after = _view(world, key)
        states = [(thing, old, after[thing]) for thing, old in before.items()]
        changes = tuple(state for state in states if state[1] != state[2])
        same = () if changes else tuple(state[:2] for state in states if state[1] not in _EMPTY)
        yield id_, Example(chosen, changes, same, bool(story.window))


def document() -> str:
    """Return the file of all examples, in the order of the spec."""
    ordered = {name: asdict(examples()[name]) for name in TRANSITIONS}
    return json.dumps(ordered, indent=1, ensure_ascii=False) + "\n"


def _choice(layer: Layer, transition: str, params: Mapping[str, int]) -> Choice:
    """Return the environment's choice of pages: always the lowest pages of the prefix tree."""
    moves = {mem.move for mem in TRANSITIONS[transition].memory}
    tree = sorted(layer.tree)
    matched = tree[: params["m"] // PAGE] if params.get("m") else []
    unlocked = [page for page in tree if page not in layer.locked()]
    evicted = unlocked[: params["n"] // PAGE] if Move.EVICT in moves else []
    pointed = {index * PAGE: page for index, page in enumerate(matched)}
    return Choice(pointed, frozenset(evicted))


def _view(world: Paged, key: str) -> dict[str, str]:
    """Return the pages, rows and variables that concern the actor, in the example's order."""
    view = {}
    values = dict(zip(LAYOUT, world.world.vector(key or None), strict=True))
    owner = "req" if values["req.phase"] >= MATCHED else "slot"
    for pool, layer in world.layers.items():
        title = _TITLES[pool]
        locked = layer.locked()
        tree = [
            f"{_name(pool, page)} (locked)" if page in locked else _name(pool, page)
            for page in sorted(layer.tree)
        ]
        row = sorted(layer.rows.get(key, {}).items())
        view[f"free list{title}"] = _listed(_name(pool, page) for page in sorted(layer.free))
        view[f"tree{title}"] = _listed(tree)
        view[f"row{title}"] = _listed(
            _name(pool, page) for position, page in row if position < values[f"{owner}.A"]
        )
    for name, number in values.items():
        if not name.startswith(("full.", "swa.", "frame.", "config.")):
            view[f"`{name}`"] = words_of(name).get(number, str(int(number)))
    return view


def _name(pool: str, page: int) -> str:
    return ascii_letters[_FIRST_LETTER[pool] + page]


def _listed(names: Iterator[str] | list[str]) -> str:
    return ", ".join(names) or "–"


if __name__ == "__main__":
    FILE.write_text(document(), encoding="utf-8")
