"""A second engine family: the referee's rules for an engine that behaves like vLLM."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest

from slotproof.engines.base import Capabilities
from slotproof.engines.reference import InProcessEngine
from slotproof.lockstep.client import Client
from slotproof.lockstep.referee import Setup, play
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CONFIGS, EngineConfig
from slotproof.protocol.snapshot import Hashed
from slotproof.search import campaign
from slotproof.search.plan import Plan
from slotproof_model.spec.profiles import PROFILES
from tests.turns import CLOSE, OPEN, steps

VLLM = CONFIGS["p4-vllm"]
OWN: dict[str, dict[str, Any]] = {
    name: {name: False} for name in ("drops_last", "loan_publishes", "queues_turns", "keeps_slack")
}
"""Each choice of vLLM, set to the value of other engines."""


def turn(rid: str, tokens: int = 2, new: int = 2) -> Command:
    """Return a turn with tokens that begin no other turn."""
    first = 10 * int(rid[1:])
    said = list(range(first, first + tokens))
    submit = {"session": "s1", "rid": rid, "tokens": said, "max_new": new, "stop": []}
    return {"do": "submit", **submit}


def clauses(
    commands: list[Command],
    mutant: str | None = None,
    config: EngineConfig = VLLM,
    profile: str | None = None,
) -> set[str]:
    """Return the clauses broken in the first bad iteration."""
    setup = Setup(config, profile=profile)
    violations = play(InProcessEngine(mutant), setup, commands).log[-1].violations
    return {violation.clause for violation in violations}


LENT = [OPEN, turn("r1"), steps(3), turn("r2", 9), steps(2)]
ANSWERED = [OPEN, turn("r1"), steps(3)]
WAITS = [OPEN, turn("r1", new=4), turn("r2"), turn("r3"), steps()]
SLACK: list[Command] = [
    OPEN,
    turn("r1", 5),
    steps(),
    {"do": "accept", "rid": "r1", "tokens": 3},
    steps(3),
]
"""Commands whose last round accepts more tokens than allowed."""
CLOSES = [OPEN, turn("r1", new=4), turn("r2"), steps(), CLOSE, steps()]


def test_a_doomed_turn_that_a_close_overtakes_is_as_long_as_it_was() -> None:
    """INV-ANSWER.unasked: the session closes before the answer. With the whole history the prompt
    is longer than the context."""
    turns = [turn("r1", 1, 11), turn("r2", 27, 4), turn("r3", 4, 4)]
    other: Command = {"do": "open", "session": "s2"}
    short: Any = {**turn("r4", 1, 0), "session": "s2"}
    plain: Any = {**turn("r5", 4, 3), "session": None}
    commands = [OPEN, *turns, steps(4), CLOSE, other, short, steps(14), plain, steps(4)]
    assert clauses(commands) == set()


def test_the_default_plan_has_the_profile() -> None:
    choices = Setup(VLLM).choices(InProcessEngine().capabilities).choices
    assert choices == PROFILES["vllm"].choices


def test_an_engine_that_does_not_name_them_is_not_asked_for_them() -> None:
    offered = Capabilities(frozenset(), page_sizes=(4,))
    for name in OWN:
        yes: dict[str, Any] = {name: True}
        asked = replace(CONFIGS["p4"], **yes)
        assert offered.refuses(asked) == f"{name} is not offered"
        assert name not in CONFIGS["p4"].to_json() and VLLM.to_json()[name] is True


def test_a_profile_that_wipes_wipes_whatever_the_configuration_says() -> None:
    """An engine that can only wipe accepts any `retract`."""
    offered = Capabilities(frozenset(), profile="vllm")
    for config in (EngineConfig(), EngineConfig(retract="wipe")):
        choices = Setup(config).choices(offered).choices
        assert choices == PROFILES["vllm"].choices


@pytest.mark.parametrize("commands", [LENT, WAITS, CLOSES, [*CLOSES, steps(12)]])
def test_what_it_does_is_right_under_its_profile(commands: list[Command]) -> None:
    assert clauses(commands) == clauses(commands, profile="vllm") == set()


def test_and_wrong_under_another() -> None:
    kept = replace(VLLM, drops_last=False, draft=0, keeps_slack=False)
    assert clauses(LENT, config=kept, profile="wipe") == {"INV-STEP.guard"}
    assert "INV-HISTORY.history" in clauses(ANSWERED, profile="wipe")


@pytest.mark.parametrize(
    ("mutant", "commands", "clause", "choice"),
    [
        ("lent-leaves-prefix", LENT, "INV-LOAN.prefix", "loan_publishes"),
        ("last-token-kept", ANSWERED, "INV-HISTORY.history", "drops_last"),
        ("slack-counts", SLACK, "INV-COVER.idle", "keeps_slack"),
        ("queue-newest-first", [*WAITS, steps(5)], "INV-SESSION.order", "queues_turns"),
    ],
)
def test_a_mutant_of_each_choice(
    mutant: str, commands: list[Command], clause: str, choice: str
) -> None:
    """An engine with the other choice does not show the mutant."""
    assert clause in clauses(commands, mutant)
    assert clauses(commands, mutant, replace(VLLM, **OWN[choice])) == set()


@pytest.mark.parametrize(
    ("mutant", "commands"),
    [("last-token-kept", ANSWERED), ("queue-newest-first", [*WAITS, steps(12)])],
)
def test_who_knows_nothing_of_the_choice_sees_nothing(mutant: str, commands: list[Command]) -> None:
    """Under SGLang's contract a turn too many may be rejected, in any order."""
    plain = replace(VLLM, draft=0, keeps_slack=False)
    config = replace(plain, loan_publishes=False, drops_last="last" in mutant)
    assert clauses(commands, mutant, config, profile="wipe") == set()


# State of clients ------------------------------------------------------------


def client(aborts_close: bool = False) -> Client:
    """Return a client with one open session, on an engine of the profile."""
    made = Client(choices=PROFILES["vllm"].choices, aborts_close=aborts_close)
    tell(made, OPEN, 1)
    made.hears({"type": "opened", "session": "s1"})
    made.settle({}, True)
    return made


def tell(made: Client, command: Command, read: int) -> None:
    made.sends(command)
    made.reads(read)


def finish(made: Client, rid: str, tokens: Any = (7, 8)) -> None:
    made.hears({"type": "finish", "rid": rid, "reason": "length", "tokens": list(tokens)})


def test_a_history_leaves_out_the_last_token() -> None:
    made = client()
    tell(made, turn("r1"), 1)
    finish(made, "r1")
    assert made.history["s1"] == [10, 11, 7] and made.requests["r1"].output == [7, 8]
    tell(made, turn("r2"), 1)
    assert made.prompt_of("r2") == [10, 11, 7, 20, 21]
    finish(made, "r2", ())
    assert made.history["s1"] == [10, 11, 7, 20, 21], "of no answer nothing is left out"


def test_of_a_hashed_answer_nobody_knows_what_is_left() -> None:
    made = client()
    tell(made, turn("r1"), 1)
    made.hears({"type": "finish", "rid": "r1", "reason": "length", "tokens": Hashed(3, 5)})  # type: ignore[typeddict-item]  # as a log has them
    assert made.history["s1"] == Hashed(4, None)


def test_the_prompt_of_a_turn_that_waits_grows() -> None:
    """Until the turn is taken, its greatest possible length counts."""
    made = client()
    for rid in ("r1", "r2", "r3"):
        tell(made, turn(rid), 1)
    r2, r3 = (made.requests[rid] for rid in ("r2", "r3"))
    assert (r2.prompt, r2.ahead, r2.most) == ([20, 21], 4, 8)
    assert (r3.prompt, r3.ahead, r3.most) == ([30, 31], 8, 12)
    finish(made, "r1")
    made.settle({}, True)
    assert (r2.prompt, r2.ahead) == ([10, 11, 7, 20, 21], 0)
    assert (r3.prompt, r3.ahead) == ([10, 11, 7, 30, 31], 4)
    assert r2.refusable is r3.refusable is False, "they are owed what any turn is"


def test_a_turn_without_a_token_waits_for_a_history() -> None:
    made = client()
    tell(made, turn("r1"), 1)
    tell(made, turn("r2", 0), 1)
    assert made.requests["r2"].refusable is None, "it has none if r1 is aborted"
    tell(made, CLOSE, 1)
    tell(made, turn("r3"), 1)
    assert made.requests["r3"].refusable is None, "it came after a close"
    assert not made.requests["r2"].closed, "which ends nothing that was before it"


def test_a_turn_that_may_become_too_long_may_be_refused_at_once() -> None:
    """A front end does not know the final length of the turns before."""

    class Careful(InProcessEngine):
        def reset(self, config: EngineConfig, seed: int) -> None:
            super().reset(config, seed)
            queue = self.engine.intake.queue

            def put(session: Any, command: Command) -> None:
                del session
                queue.answer(command["rid"], "it may be too long")

            queue.put = put  # type: ignore[method-assign]

    def clauses(new: int) -> set[str]:
        commands = [OPEN, turn("r1", 20, 20), steps(), turn("r2", 4, new), steps()]
        violations = play(Careful(), Setup(VLLM), commands).log[-1].violations
        return {violation.clause for violation in violations}

    assert clauses(4) == {"INV-ANSWER.unasked"}, "44 and 4 are 48: it fits in any case"
    assert clauses(5) == set()


@pytest.mark.parametrize(
    ("word", "refused"),
    [
        ("turns without new tokens", turn("r2", 0)),
        ("requests for no token", turn("r2", 2, 0)),
        ("requests without a session", {**turn("r2"), "session": None}),
    ],
)
def test_what_a_front_end_refuses_is_told_by_its_driver(word: str, refused: Command) -> None:
    """INV-ANSWER.unasked: every client is owed an answer, unless the driver declares the case."""

    class FrontEnd(InProcessEngine):
        def reset(self, config: EngineConfig, seed: int) -> None:
            super().reset(config, seed)
            intake = self.engine.intake
            submit = intake.submit

            def checked(command: Command) -> None:
                if command["rid"] == "r2":
                    intake.queue.answer("r2", "the front end does not take it")
                else:
                    submit(command)

            intake._handlers["submit"] = checked

    commands = [OPEN, turn("r1"), steps(3), refused, steps()]
    engine = FrontEnd()
    violations = play(engine, Setup(VLLM), commands).log[-1].violations
    assert {violation.clause for violation in violations} == {"INV-ANSWER.unasked"}
    engine.capabilities = replace(engine.capabilities, not_observed={word: "it refuses them"})
    assert play(engine, Setup(VLLM), commands).log[-1].violations == []


# An abort that ends the session --------------------------------------------------


class AbortCloses(InProcessEngine):
    """An engine that closes the session of an aborted turn, like vLLM."""

    def __init__(self, told: bool = True) -> None:
        super().__init__()
        answers = {"closed": "an abort of a turn ends its session"} if told else {}
        self.capabilities = replace(self.capabilities, answers=answers)

    def reset(self, config: EngineConfig, seed: int) -> None:
        super().reset(config, seed)
        intake, controller = self.engine.intake, self.engine.controller
        abort = intake.abort

        def both(rid: str) -> None:
            ends = [
                session
                for session in controller.sessions.values()
                if rid in (session.inflight and session.inflight.rid, *_waiting(session))
            ]
            for session in ends:
                for queued in _waiting(session):
                    intake.queue.abort(queued)
                if session.inflight is not None:
                    abort(session.inflight.rid)
                if not (session.closing or session.close_waits):  # else the close follows anyway
                    controller.close(session.session_id)
            abort(rid)

        intake.abort = both  # type: ignore[method-assign]


def _waiting(session: Any) -> list[str]:
    return [command["rid"] for command in session.queue]


ABORT: Command = {"do": "abort", "rid": "r1"}


def test_an_abort_may_end_the_session_where_the_driver_says_so() -> None:
    commands = [*WAITS, ABORT, turn("r4"), steps(), OPEN, turn("r5"), steps(4)]
    assert play(AbortCloses(), Setup(VLLM), commands).log[-1].violations == []
    violations = play(AbortCloses(told=False), Setup(VLLM), commands).log[-1].violations
    assert {violation.clause for violation in violations} == {
        "INV-ANSWER.unasked",
        "INV-SESSION.closed",
    }


def test_what_an_abort_ends_is_one_session_and_only_then() -> None:
    made = client(aborts_close=True)
    tell(made, turn("r1"), 1)
    tell(made, {"do": "abort", "rid": "r9"}, 1)
    assert not made.sessions["s1"].asked, "nobody is r9"
    tell(made, ABORT, 1)
    session = made.sessions["s1"]
    assert [command.do for command in session.asked] == ["abort"] and made.requests["r1"].closed
    made.settle({}, True)
    assert session.asked and session.open is None, "it is not answered yet"
    finish(made, "r1")
    for _ in range(4):
        made.settle({}, True)
    assert not session.asked and session.open, "it was not closed"


@pytest.mark.parametrize("told", [("closed", "refused"), ("closed", "refused", "refused")])
def test_an_abort_that_ended_nothing_takes_no_answer(
    told: tuple[Literal["closed", "refused"], ...],
) -> None:
    """INV-SESSION.answered: two later closes are answered, with or without a third answer."""
    made = client(aborts_close=True)
    for command in (turn("r1"), ABORT, CLOSE, CLOSE):
        tell(made, command, 1)
    finish(made, "r1", ())
    for kind in told:
        made.hears({"type": kind, "session": "s1"})
    assert made.unexpected == []
    assert not [command for command in made.sessions["s1"].asked if command.do == "close"]


@pytest.mark.parametrize("engine", [InProcessEngine, AbortCloses])
def test_no_false_alarm(engine: Any) -> None:
    plan = Plan({"p4-vllm": VLLM}, examples=20, seed=5)
    assert campaign.run(engine(), "reference", plan).trace is None
