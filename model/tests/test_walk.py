"""Random walks of the spec: its state and step invariants hold everywhere.

A cheap proof by sampling. Parameters are drawn from terms of the guards, and rare transitions are
preferred, so that all are reached.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from slotproof_model.evaluation.evaluate import outcomes
from slotproof_model.evaluation.layout import INDEX, OWN, Vector, initial_pools
from slotproof_model.evaluation.world import Constants, World
from slotproof_model.spec.profiles import PROFILES
from slotproof_model.spec.transitions import TRANSITIONS

ROWS = 3
WALKS, LENGTH, DRAWS = 24, 80, 12
SLOT_ROW, TURN_ROW = OWN["slot.row"], OWN["req.row"]
PROGRESS = {
    "T-SUBMIT",
    "T-MATCH",
    "T-EXTEND",
    "T-DECODE",
    "T-SWA-ADVANCE",
    "T-SAVE",
    "T-RETRACT",
    "T-RESTORE",
}
"""Weights: steps that lead deeper are chosen more often, steps that end a life less often."""
ENDS = {"T-CLOSE", "T-REAP", "T-DISCARD", "T-ABORT", "T-PLAIN-ABORT", "T-ABORT-WAITING", "T-DOOM"}


@dataclass
class Seen:
    """Transitions performed, and guard conjuncts seen to hold and to fail."""

    transitions: Counter[str] = field(default_factory=Counter)
    holds: int = 0
    fails: int = 0

    def guards(self, world: World, key: str | None) -> None:
        table = outcomes(world.constants.page_size)
        bits = table.evaluate(world.vector(key))
        self.holds |= bits
        self.fails |= ~bits & ((1 << len(table.names)) - 1)


LATE = replace(PROFILES["wipe"], base="wipe", says={"overlap": True})
"""Choices with which a result may arrive after a retraction."""
_KNOWN = {**PROFILES, "late": LATE}


def fresh(page_size: int, window: int, profile: str = "reference", pages: int = 12) -> World:
    constants = Constants(page_size, 10 * page_size, window, _KNOWN[profile])
    tokens = pages * page_size
    second = tokens if window else 0
    return World(constants, initial_pools(tokens, second, ROWS))


class Draw:
    """Parameters likely to satisfy a guard, drawn in order."""

    def __init__(self, world: World, vector: Vector, rng: random.Random) -> None:
        self.world, self.vector, self.rng = world, vector, rng
        self.page = world.constants.page_size

    def __getitem__(self, name: str) -> int:
        return self.vector[INDEX[name]]

    def pages(self, most: int) -> int:
        """Draw whole pages: all, none, or a number between."""
        whole = max(0, most) // self.page
        return self.page * self.rng.choice([0, whole, self.rng.randint(0, whole)])

    def params(self, id_: str) -> dict[str, int]:
        drawn: dict[str, int] = {}
        for name in TRANSITIONS[id_].names:
            drawn[name] = self.param(id_, name, drawn)
        return drawn

    def param(self, id_: str, name: str, drawn: dict[str, int]) -> int:
        rng, known = self.rng, self["req.prompt"] + self["req.output"]
        match name:
            case "new" | "prompt":
                return rng.choice([0, 1, rng.randint(1, 5), rng.randint(1, 6 * self.page)])
            case "m":
                return self.pages(known)
            case "t":
                return rng.choice([known, rng.randint(self["req.C"], max(known, self["req.C"]))])
            case "sampled" if id_ == "T-RESULT":
                return drawn["k"] + rng.randint(0, 1)
            case "sampled" if id_ == "T-LATE-RESULT":
                return rng.randint(1, 2)
            case "sampled":
                return int(drawn["t"] == known) and rng.randint(0, 1)
            case "row":
                return self["req.row"] if self["req.row"] >= 0 else self.free_row()
            case "d":
                return rng.randint(0, 3)
            case "k":
                room = self["req.A"] + drawn.get("d", 0) - self["req.C"]
                return min(rng.randint(0, max(0, room)), 1 if id_ == "T-LAUNCH" else room)
            case "e":
                return self.pages(self["req.C"] - self["config.window"])
            case "told":
                reported = drawn.get("sampled", drawn.get("k", 0))
                return reported if rng.random() < 0.9 else rng.randint(0, reported)
            case "at":
                return known
            case "ahead":
                return rng.randint(0, 1)
            case "q":
                most = min(self["req.C"], known) - self["req.Q"]
                return self["req.Q"] + self.pages(most)
            case "dup" | "swa_dup":
                return self.pages(drawn["q"] - self["req.Q"]) if rng.random() < 0.5 else 0
            case "n" | "swa_n":
                return self.pages(self["full.evictable" if name == "n" else "swa.evictable"])
            case _:
                return self.lock(id_, name, drawn)

    def lock(self, id_: str, name: str, drawn: dict[str, int]) -> int:
        """Draw locked, u and their swa twins: tokens between evictable and protected."""
        pool = "swa" if name.startswith("swa") else "full"
        if id_ == "T-MATCH":
            return self.pages(drawn["m"])
        if id_ == "T-INSERT" and name == "locked":
            return drawn["q"] - self["req.Q"] - self.rng.choice([0, drawn["dup"]])
        if id_ == "T-INSERT":
            return self.pages(drawn["q"] if name == "swa_locked" else self["req.Q"])
        protected = self[f"{pool}.protected"]
        return self.rng.choice(
            [
                0,
                max(self["slot.Q"], self["req.Q"]),
                protected - self["frame.lock_max"],
                protected - self["frame.lock_sum"],
            ]
        )

    def free_row(self) -> int:
        """Draw a free row. The allocator may give any."""
        actors = self.world.actors.values()
        used = {values[key] for values in actors for key in (SLOT_ROW, TURN_ROW)}
        return next((row for row in range(ROWS) if row not in used), 0)


def options(world: World, number: int) -> Iterator[tuple[str, str | None, str | None, str | None]]:
    """Yield (transition, session, request, actor) to be tried."""
    keys = list(world.actors)
    alone = [key for key in keys if key.startswith("/")]
    sid = f"s{number % 2}"
    if sid not in keys:
        yield "T-OPEN", sid, None, None
    if len(alone) < 2:
        yield "T-PLAIN-SUBMIT", None, f"p{number}", None
    yield "T-EVICT", None, None, None
    for key in keys:
        for id_, transition in TRANSITIONS.items():
            if id_ in ("T-OPEN", "T-PLAIN-SUBMIT", "T-EVICT"):
                continue
            if transition.detaches and len(alone) > 1:
                continue
            if key.startswith("/"):
                yield id_, None, key[1:], key
            else:
                yield id_, key, f"r{number}", key


def walk(world: World, rng: random.Random, length: int, seen: Seen) -> None:
    """Perform enabled transitions, the rare ones first, and check everything after each."""
    steps = world.steps
    for number in range(length):
        enabled = []
        vectors = {key: world.vector(key) for key in (None, *world.actors)}
        for id_, sid, rid, key in options(world, number):
            draw = Draw(world, vectors[key], rng)
            parameterless = {name for _, name in _PLAIN_CONJUNCTS[id_]}
            for _ in range(DRAWS):
                params = draw.params(id_)
                blocked = steps[id_].blocked(vectors[key], params)
                if blocked is None:
                    enabled.append((id_, sid, rid, params))
                if blocked is None or blocked in parameterless or not params:
                    break
        weights = [weight(candidate[0], seen) for candidate in enabled]
        id_, sid, rid, params = rng.choices(enabled, weights)[0]
        seen.guards(world, world.key(id_, sid, rid))
        assert world.apply(id_, sid, rid, params) == [], (id_, params)
        seen.transitions[id_] += 1
        for key in world.actors:
            seen.guards(world, key)
        assert list(world.violations()) == [], (id_, params)


def weight(id_: str, seen: Seen) -> float:
    bias = 6.0 if id_ in PROGRESS else 0.1 if id_ in ENDS else 1.0
    return bias / (10 + seen.transitions[id_])


_PLAIN_CONJUNCTS: dict[str, list[tuple[str, str]]] = {
    id_: [clause for clause in outcomes(1).names if clause[0] == id_] for id_ in TRANSITIONS
}


def walks(page_size: int, window: int, profile: str) -> Seen:
    seen = Seen()
    for seed in range(WALKS):
        walk(fresh(page_size, window, profile), random.Random(seed), LENGTH, seen)
    return seen


def impossible(world: World) -> set[str]:
    """Return the transitions excluded by the configuration or the profile."""
    vector = world.vector(None)
    ruled_out = set()
    if not PROFILES[world.constants.profile.name].choices["retract_keeps"]:
        ruled_out.add("T-ABORT-PARTIAL")  # No partial slots.
    for id_, transition in TRANSITIONS.items():
        if any(vector[INDEX[name]] != value for name, value in transition.choices.items()):
            ruled_out.add(id_)
    return ruled_out


@pytest.mark.parametrize(
    "profile", ["reference", "wipe", "aligned", "overlap", "late", "sglang-records", "vllm"]
)
@pytest.mark.parametrize(("page_size", "window"), [(1, 0), (4, 0), (1, 2), (4, 4), (16, 20)])
def test_invariants_hold_on_random_walks(page_size: int, window: int, profile: str) -> None:
    """All invariants hold after every transition, and every transition is reached."""
    seen = walks(page_size, window, profile)
    possible = set(TRANSITIONS) - impossible(fresh(page_size, window, profile))
    assert possible - set(seen.transitions) == set()
    assert set(seen.transitions) <= possible


@pytest.mark.slow
def test_every_guard_conjunct_is_seen_to_hold_and_to_fail() -> None:
    """No conjunct is idle or impossible. Conjuncts with parameters held if their transition was
    reached."""
    holds = fails = 0
    settings = [
        (1, 2, "sglang-records"),
        (1, 1, "overlap"),
        (1, 1, "late"),
        (1, 1, "reference"),
        (1, 2, "wipe"),
        (4, 4, "reference"),
    ]
    for setting in settings:
        seen = walks(*setting)
        holds |= seen.holds
        fails |= seen.fails
    names = outcomes(1).names
    assert [name for bit, name in enumerate(names) if not holds >> bit & 1] == []
    assert [name for bit, name in enumerate(names) if not fails >> bit & 1] == []
