"""Random walks of the spec: its state and step invariants hold wherever it goes."""

import random
from collections import Counter

import pytest
from slotproof.model.evaluate import INDEX
from slotproof.model.profiles import PROFILES
from slotproof.model.state import NO_ROW
from slotproof.model.transitions import TRANSITIONS
from slotproof.model.world import POOLS, Constants, World

SLOT_ROW, TURN_ROW = INDEX["slot.row"] - POOLS, INDEX["turn.row"] - POOLS


def fresh(page_size: int, window: int, profile: str = "reference", pages: int = 12) -> World:
    constants = Constants(page_size, 10 * page_size, window, PROFILES[profile])
    tokens = pages * page_size
    second = tokens if window else 0
    return World(constants, [tokens, tokens, 0, 0, second, second, 0, 0, 3, 3])


def walk(world: World, rng: random.Random, length: int, seen: Counter[str]) -> None:
    """Try random transitions with random parameters; perform those that are enabled."""
    page = world.constants.page_size
    for step in range(length):
        for _ in range(200):
            rarest = rng.sample(list(TRANSITIONS.values()), 3)
            transition = min(rarest, key=lambda each: seen[each.id])
            keys = list(world.actors) or ["s0"]
            key = rng.choice(keys)
            sid, rid = (None, key[1:]) if key.startswith("/") else (key, f"r{step}")
            if transition.id == "T-OPEN":
                sid, rid = f"s{rng.randrange(3)}", None
                if sid in world.actors:
                    continue
            elif transition.id in ("T-REJECT", "T-DOOM") and len(world.actors) > 4:
                continue
            elif transition.id == "T-PLAIN-SUBMIT":
                sid, rid = None, f"p{step}"
                if sum(key.startswith("/") for key in world.actors) > 1:
                    continue
            params = {
                var.name.removeprefix("param."): rng.choice(
                    [0, 1, rng.randrange(8), page * rng.randrange(8), page]
                )
                for var in transition.params
            }
            used = {values[key] for values in world.actors.values() for key in (SLOT_ROW, TURN_ROW)}
            if transition.id == "T-EXTEND" and params["row"] in used - {NO_ROW}:
                continue  # which row is free is the allocator's business, not the spec's
            if not enabled(world, transition.id, sid, rid, params):
                continue
            assert world.apply(transition.id, sid, rid, params) == []
            assert not list(world.violations()), transition.id
            seen[transition.id] += 1
            break


def enabled(world: World, id_: str, sid: str | None, rid: str | None, params: dict) -> bool:
    key = world.key(id_, sid, rid)
    if key is not None and key not in world.actors and id_ not in ("T-OPEN", "T-PLAIN-SUBMIT"):
        return False
    return world._steps[id_].blocked(world.vector(key), params) is None


@pytest.mark.parametrize("profile", ["reference", "wipe", "aligned"])
@pytest.mark.parametrize(("page_size", "window"), [(1, 0), (4, 0), (1, 2), (4, 4)])
def test_invariants_hold_on_random_walks(page_size: int, window: int, profile: str) -> None:
    seen: Counter[str] = Counter()
    for seed in range(60):
        walk(fresh(page_size, window, profile), random.Random(seed), 80, seen)
    expected = set(TRANSITIONS) - {"T-SWA-ADVANCE" if not window else ""}
    expected -= {"T-RETRACT"} if profile == "wipe" else {"T-RETRACT-WIPE"}
    assert expected <= set(seen)
