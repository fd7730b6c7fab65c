"""INV-SUM-*, INV-ONCE and all other invariants of states, evaluated on the snapshot.

The terms of each pool's equation are known twice. Ownership gives one set of values, from slots,
requests and their lengths. The engine's own check reports the other set. The equation must hold for
each set, and the two sets must be equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slotproof.lockstep.figures import figures, in_a_line
from slotproof.lockstep.observation import TERMS, Observation, Violation, actor_of, violated
from slotproof.protocol.snapshot import RequestView
from slotproof_model.spec.expr import variables
from slotproof_model.spec.invariants import INVARIANTS
from slotproof_model.spec.state import NO_ROW

EQUATIONS = {"INV-SUM-FULL": "full", "INV-SUM-SWA": "swa"}
"""Pool of each equation, by invariant."""
_OF_ALL = {*EQUATIONS, "INV-ROWS", "INV-DRAIN", "INV-LOCK"}
"""Invariants about all actors together. Their violations name no session or request."""


def judge(seen: Observation) -> Iterator[Violation]:
    for actor, invariant, conjunct in seen.broken:
        yield _broken(seen, invariant, conjunct, actor)
    for invariant, pool in EQUATIONS.items():
        if pool not in seen.snapshot["pools"]:
            continue
        seen.coverage.checked[invariant] += 1
        reported: Mapping[str, Any] | None = seen.snapshot["checker"]["pools"].get(pool)
        if not seen.snapshot["checker"]["ran"] or reported is None:
            continue
        terms = [reported[term] for term in TERMS]
        if sum(terms) != reported["total"] or min(terms) < 0:
            yield _sum(invariant, "reported", reported)
        expected = expected_report(seen, pool, reported["held"])
        if (reported["held"], reported["uncached"]) != expected:
            yield violated(
                "INV-ONCE.reported",
                "{pool}: the engine counts held {held} and uncached {uncached}, ownership gives "
                "{own[0]} and {own[1]}",
                pool=pool,
                own=expected,
                held=reported["held"],
                uncached=reported["uncached"],
            )
    yield from _held_rows(seen)
    _count(seen)


def _held_rows(seen: Observation) -> Iterator[Violation]:
    """Check the engine's count of rows held by slots. For loans see `expected_report`."""
    said, snapshot = seen.snapshot["checker"].get("held_rows"), seen.snapshot
    if said is None or not snapshot["checker"]["ran"]:
        return
    held = {view["row"] for sid, view in snapshot["slots"].items() if sid not in seen.lent_slots}
    least = most = held - {NO_ROW}
    if seen.world.constants.profile.choices["loan"] != "uncached":
        most = least | {view["row"] for view in _for_sessions(seen).values()} - {NO_ROW}
    if not len(least) <= said <= len(most):
        words = "the engine counts {engine} row(s) held by slots, ownership gives {spec}"
        yield violated("INV-ROWS.reported", words, engine=said, spec=len(least))


def _broken(seen: Observation, invariant: str, conjunct: str, actor: str | None) -> Violation:
    """Return the violation of a state invariant, with the actor's values."""
    writer = seen.world.writers.get(actor or "")
    if invariant in EQUATIONS:
        return _sum(invariant, conjunct, seen.figures(EQUATIONS[invariant]), writer)
    session, rid = (None, None) if invariant in _OF_ALL else actor_of(actor)
    expr, page = INVARIANTS[invariant].conjuncts[conjunct], seen.config.page_size
    said = figures(expr, page, seen.world.vector(actor))
    parts = {name.partition(".")[0] for name in variables(expr)}  # parts of the state
    if actor and {"session", "slot", "turn"} & parts and "frame" not in parts:
        said = f"{actor.removeprefix('/')}: {said} ({_figures(seen, actor)})"
    return Violation(invariant, conjunct, said, writer, session=session, rid=rid)


def _sum(
    invariant: str, conjunct: str, share: Mapping[str, int], writer: str | None = None
) -> Violation:
    """Return the violation of a pool's equation."""
    terms = [share[term] for term in TERMS]
    words = f"{{pool}}: {{terms}} = {{engine}}, not {{spec}} ({' + '.join(TERMS)})"
    return violated(
        f"{invariant}.{conjunct}",
        words,
        pool=EQUATIONS[invariant],
        terms=" + ".join(map(str, terms)),
        spec=share["total"],
        engine=sum(terms),
        transition=writer,
    )


def _count(seen: Observation) -> None:
    """Count the clauses that could be judged in this observation."""
    actors, owners = bool(seen.world.actors), bool(seen.owners)
    for invariants, applies in (
        (["INV-ROWS"], True),
        (["INV-ABSENT", "INV-KIND", "INV-TOKENS"], actors),
        (["INV-DRAIN"], not actors),
        (["INV-PHASE"], seen.snapshot["requests"]),
        (["INV-LOAN"], seen.lent_slots),
        (["INV-ONCE"], seen.snapshot["slots"]),
        (["INV-ORDER", "INV-ALIGN", "INV-COVER"], owners),
        (["INV-CURSOR", "INV-WINDOW"], owners and seen.config.window),
    ):
        for invariant in invariants if applies else ():
            seen.coverage.checked[invariant] += 1


def expected_report(seen: Observation, pool: str, reported_held: int) -> tuple[int, int]:
    """Return held and uncached tokens, with KV on loan counted as the engine's profile says.

    An engine that reports KV on loan as held may also count the KV of stubs, of doomed turns and of
    turns without a slot. The engine's record of a session exists from the first prefill on. The
    oracle accepts counts of held tokens with and without this KV.
    """
    held, uncached = seen.shares[pool]
    if seen.world.constants.profile.choices["loan"] == "uncached":
        return held, uncached
    index = 1 if pool == "full" else 3
    sessions = {f"/{rid}" for rid in _for_sessions(seen)}
    shares = seen.world.shares.items()
    turns = {key: share[index] for key, share in shares if key[0] != "/" or key in sessions}
    least = sum(tokens for key, tokens in turns.items() if key in seen.lent_slots)
    moved = min(max(reported_held - held, least), sum(turns.values()))
    return held + moved, uncached - moved


def _for_sessions(seen: Observation) -> dict[str, RequestView]:
    """Return the requests sent to a session, even if the session did not accept them."""
    return {rid: view for rid, view in seen.snapshot["requests"].items() if view["kind"] != "plain"}


def _figures(seen: Observation, actor: str) -> str:
    """Return the lengths of an actor's slot, turn or request."""
    requests = seen.snapshot["requests"]
    if actor.startswith("/"):
        return _lengths(requests.get(actor[1:]))
    slot = _lengths(seen.snapshot["slots"].get(actor))
    of = (request for request in requests.values() if request["session"] == actor)
    turn = next((request for request in of if request["kind"] != "stub"), None)
    return f"slot {slot}, turn {_lengths(turn)}"


def _lengths(view: object) -> str:
    if not isinstance(view, dict):
        return "none"
    names = ("phase", "lent", "row", "C", "A", "Q", "E", "prompt", "output")
    return in_a_line({name: view[name] for name in names if name in view})
