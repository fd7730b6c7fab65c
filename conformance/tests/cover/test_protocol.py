"""Commands, configurations, capabilities and snapshots follow the protocol page."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from slotproof.engines.base import Capabilities
from slotproof.engines.reference import InProcessEngine
from slotproof.lockstep.abstraction import abstract
from slotproof.lockstep.coverage import Coverage
from slotproof.lockstep.referee import Setup
from slotproof.protocol.commands import FIELDS, Command, check, describe
from slotproof.protocol.config import CONFIGS, BadConfig, EngineConfig
from slotproof.protocol.messages import HELLO
from slotproof.protocol.snapshot import SNAPSHOTS, token_hash
from slotproof.search.drawing import family
from slotproof_engine.base.config import EngineConfig as ImplConfig
from slotproof_model.evaluation.layout import OWN
from slotproof_model.evaluation.world import Constants
from slotproof_model.spec.profiles import PROFILES

TURN: Command = {
    "do": "submit",
    "session": "s1",
    "rid": "r",
    "tokens": [1, 2],
    "max_new": 3,
    "stop": [9],
}


@pytest.mark.parametrize("name", CONFIGS)
def test_every_snapshot_follows_the_schema(name: str) -> None:
    """A random run, with every snapshot sent through JSON and back."""
    rng = random.Random(name)
    engine = InProcessEngine()
    engine.reset(CONFIGS[name], 0)
    seen = 0
    for number in range(40):
        sid = rng.choice(["s1", "s2", None])
        tokens = family(rng.randrange(2), rng.randint(1, 9))
        choices: list[Command] = [
            {"do": "open", "session": "s1"},
            {**TURN, "session": sid, "rid": f"r{number}", "tokens": tokens, "stop": []},
            {"do": "step", "n": 2},
            {"do": "step", "n": 1},
            {"do": "tick", "seconds": 40},
            {"do": "retract"},
            {"do": "abort", "rid": f"r{number - 2}"},
        ]
        snapshots = engine.do(check(rng.choice(choices)))
        seen += len(snapshots)
        assert SNAPSHOTS.misfit(json.loads(json.dumps({"snapshots": snapshots}))) is None
    assert seen > 5


def test_hello_of_the_reference_engine_follows_the_schema() -> None:
    offered = InProcessEngine().capabilities
    document: dict[str, Any] = json.loads(json.dumps(vars(offered), default=sorted))
    hello = {"protocol": 2, "engine": {"name": "x", "version": ""}, "capabilities": document}
    assert HELLO.misfit(hello) is None
    assert Capabilities.from_json(document) == offered


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"do": "reboot"}, "unknown command 'reboot'"),
        ({"do": None}, "unknown command None"),
        ({"extra": 1}, "submit/extra: Extra inputs are not permitted"),
        ({"tokens": "abc"}, 'submit/tokens: Input should be a valid list, not "abc"'),
        ({"tokens": [0]}, "submit/tokens: token ids start at 1"),
        ({"tokens": [True]}, "submit/tokens/0: Input should be a valid integer, not true"),
        ({"stop": [1.5]}, "submit/stop/0: Input should be a valid integer, not 1.5"),
        ({"max_new": -1}, "submit/max_new: Input should be greater than or equal to 0"),
        ({"max_new": True}, "submit/max_new: Input should be a valid integer, not true"),
        ({"session": 3}, "submit/session: Input should be a valid string, not 3"),
        ({"rid": None}, "submit/rid: Input should be a valid string, not null"),
    ],
)
def test_what_is_no_command(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        check({**TURN, **change})


def test_what_is_one() -> None:
    for session in ("s1", None):
        assert check({**TURN, "session": session})["session"] == session
    assert check({**TURN, "tokens": [], "max_new": 0, "stop": []})


def test_commands_are_described() -> None:
    assert describe(TURN) == "submit r to s1: 2 tokens, at most 3 new, stop at [9]"
    assert describe({**TURN, "session": None}).startswith("submit r without a session: 2 tokens")
    assert describe({"do": "draft", "rid": "r", "allocate": 4, "commit": 2}) == (
        "draft for r: allocate 4, commit 2 (injected)"
    )
    asked = describe({"do": "accept", "rid": "r", "tokens": 3})
    assert asked == "accept 3 tokens in r's next round"
    plain = {name: {"do": name, **dict.fromkeys(FIELDS[name], 1)} for name in FIELDS}
    assert (
        describe(plain["step"]) == "one scheduler iteration" and describe(plain["flush"]) == "flush"
    )


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"page_size": 0}, "page_size: Input should be greater than or equal to 1, not 0"),
        ({"page_size": 4, "total_tokens": 6}, "total_tokens=6 is no multiple of page_size=4"),
        ({"page_size": 4, "total_tokens": 0}, "total_tokens=0 is less than one page of 4 tokens"),
        ({"window": 2}, "window and swa_tokens come together"),
        ({"swa_tokens": 2}, "window and swa_tokens come together"),
        ({"rows": 0}, "rows: Input should be greater than or equal to 1, not 0"),
        ({"rows": -1}, "rows: Input should be greater than or equal to 1, not -1"),
        ({"chunk": 1.5}, "chunk: Input should be a valid integer, not 1.5"),
        ({"turbo": 1}, "turbo: Extra inputs are not permitted"),
    ],
)
def test_configurations_that_no_engine_can_have(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(BadConfig, match=text):
        EngineConfig.from_json(fields)


@pytest.mark.parametrize("name", CONFIGS)
def test_configurations_survive_json_and_the_reference_engine_takes_them(name: str) -> None:
    config = CONFIGS[name]
    assert EngineConfig.from_json(json.loads(json.dumps(config.to_json()))) == config
    assert ImplConfig.of(config.to_json()).page_size == config.page_size


def test_the_configurations_span_what_the_suite_promises() -> None:
    """Page sizes 1, 4, 16, with and without the SWA pool. Chunks, drafts, both retracts."""
    configs = CONFIGS.values()
    spans = {(config.page_size, config.window > 0) for config in configs}
    assert spans >= {(page, swa) for page in (1, 4, 16) for swa in (False, True)}
    assert any(config.chunk for config in configs) and any(
        config.draft and config.topk > 1 for config in configs
    )
    assert {config.retract for config in configs} == {"keep", "wipe"}


def test_hash_is_the_crc_of_decimal_ids() -> None:
    assert token_hash([]) == 0
    assert token_hash([1, 23]) != token_hash([12, 3])


def test_profiles_take_the_configuration_on_top() -> None:
    offered = InProcessEngine().capabilities
    assert Setup(CONFIGS["p4-wipe"]).choices(offered).choices["retract_keeps"] is False
    assert Setup(CONFIGS["p4-aligned"]).choices(offered).choices["aligned_reuse"] is True
    assert Setup(CONFIGS["p4-wipe"], profile="reference").choices(offered) is PROFILES["reference"]


# From snapshots to states of the spec ------------------------------------------


def actor(world: Any, key: str, name: str) -> int:
    value: int = world.actors[key][OWN[name]]
    return value


CONSTANTS = Constants(4, 48, 0, PROFILES["reference"])


def test_abstraction_of_a_turn_on_loan(scene: Any) -> None:
    """The turn has the KV, the slot is lent, the lock is the slot's."""
    made = scene()
    world = abstract(made.snapshot, CONSTANTS)
    pool, request = made.snapshot["pools"]["full"], made.snapshot["requests"]["r2"]
    assert world.pools[:4] == [pool[n] for n in ("total", "available", "evictable", "protected")]
    assert world.pools[4:8] == [0, 0, 0, 0], "no second pool"
    assert world.pools[9] == len(made.snapshot["rows"]["free"])
    assert actor(world, "s1", "slot.lent") == 1 and actor(world, "s1", "slot.locked") == 1
    assert actor(world, "s1", "req.locked") == 0
    assert [actor(world, "s1", f"req.{n}") for n in "CAQ"] == [request[n] for n in "CAQ"]


def test_abstraction_without_a_flag_tells_lent_from_ownership(scene: Any) -> None:
    made = scene()
    made.snapshot["slots"]["s1"]["lent"] = None
    assert actor(abstract(made.snapshot, CONSTANTS), "s1", "slot.lent") == 1
    made.snapshot["requests"]["r2"]["loan"] = None
    assert actor(abstract(made.snapshot, CONSTANTS), "s1", "slot.lent") == 0


@pytest.mark.parametrize("kind", ["stub", "doomed", "plain"])
def test_abstraction_of_requests_that_go_alone(kind: str, scene: Any) -> None:
    made = scene()
    made.snapshot["requests"]["r3"] = {
        **made.snapshot["requests"]["r2"],
        "kind": kind,
        "phase": "waiting",
        "row": -1,
        "loan": None,
    }
    world = abstract(made.snapshot, CONSTANTS)
    assert actor(world, "/r3", "req.kind") == 2
    assert actor(world, "/r3", "req.locked") == 0, "what waits without a row locks nothing"
    assert ("/r3", "INV-ABSENT", "kv") in list(world.violations()), "and has no lengths"


def test_abstraction_of_a_slot_without_a_session(scene: Any) -> None:
    """The slot is an actor: its memory is counted, and INV-PHASE covers it."""
    made = scene()
    made.snapshot["sessions"].clear()
    world = abstract(made.snapshot, CONSTANTS)
    assert actor(world, "s1", "slot.holding") == 1 and actor(world, "s1", "session.open") == 0


def test_abstraction_ignores_the_cursor_without_a_second_pool(scene: Any) -> None:
    made = scene()
    made.snapshot["requests"]["r2"]["E"] = 4
    assert actor(abstract(made.snapshot, CONSTANTS), "s1", "req.E") == 0


# Coverage ------------------------------------------------------------------------


def test_coverage_adds_up(scene: Any) -> None:
    made = scene()
    first: Coverage = made.referee.coverage
    second = Coverage()
    Setup(CONFIGS["p4"]).referee(InProcessEngine(), coverage=second).do({"do": "step", "n": 3})
    total = Coverage()
    total.add(first)
    total.add(second)
    assert total.commands == first.commands + 1
    assert total.iterations == first.iterations + 3
    assert total.transitions == first.transitions + second.transitions
    assert total.holds == first.holds | second.holds


def test_guard_outcomes_are_named_until_both_ways_were_seen(scene: Any) -> None:
    coverage: Coverage = scene().referee.coverage
    seen, possible, missing = coverage.guards({"T-OPEN", "T-SWA-ADVANCE"})
    assert seen + len(missing) == possible
    assert "T-SWA-ADVANCE.swa never held" in missing
    assert "T-OPEN.closed never held" not in missing


def test_a_clause_that_is_set_aside_is_counted_and_passed_over() -> None:
    """--ignore: ignored violations do not end a run."""
    engine = InProcessEngine("21499-one-pool-check")
    clauses = ("INV-CHECKER.covers",)
    referee = Setup(CONFIGS["p1-swa"], ignored=clauses).referee(engine)
    assert referee.do({"do": "step", "n": 2}) == []
    assert referee.coverage.ignored == {"INV-CHECKER.covers": 2}


def test_the_whole_answers_in_the_document_are_such() -> None:
    """The examples for a driver's author: a hello, and a snapshot of the reference engine."""
    text = (Path(__file__).parents[3] / "docs" / "reference" / "protocol.md").read_text()
    hello, shown = (
        json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    )
    assert Capabilities.from_json(hello["result"]["capabilities"]).profile == "reference"
    engine = InProcessEngine()
    engine.reset(EngineConfig(total_tokens=16, rows=2, context_len=16, max_running=2), 0)
    engine.do({"do": "open", "session": "s1"})
    tokens = {"tokens": [5, 6, 7], "max_new": 2, "stop": []}
    engine.do({"do": "submit", "session": "s1", "rid": "r1", **tokens})
    (snapshot,) = engine.do({"do": "step", "n": 1})
    assert json.loads(json.dumps(snapshot)) == shown
