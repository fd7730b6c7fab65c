"""The reason for which an obligation holds: by induction, by the effect, by framing, or because it
cannot fail."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from slotproof_model.proofs.obligations import Reason, Result
from slotproof_model.proofs.prove import prove, reasons
from slotproof_model.spec import state, transitions as t
from slotproof_model.spec.expr import App, Expr, Var, implies
from slotproof_model.spec.invariants import INVARIANTS
from slotproof_model.spec.transition import Transition
from slotproof_model.spec.transitions import TRANSITIONS
from slotproof_model.spec.whole import Spec


def _results(only: str, spec: Spec | None = None) -> dict[str, Result]:
    results, _ = prove(spec, page_sizes=[4], jobs=1, only=[only])
    return {f"{result.transition} / {result.clause}": result for result in results}


def test_a_reason_is_decided_by_proofs_and_models() -> None:
    """A park writes the phase of a request only."""
    expected: dict[str, Reason] = {
        "T-PARK / INV-ORDER.req": "framing",
        "T-PARK / INV-KIND.range": "inductive",
        "T-PARK / INV-PHASE.parked": "effect",
        "T-PARK / INV-PHASE.matched": "excluded",
        "T-PARK [others] / INV-ORDER.req": "framing",
    }
    results = _results("T-PARK")
    assert {name: results[name].reason for name in expected} == expected
    assert results["T-PARK / INV-KIND.range"].core != ()


def test_a_premise_that_the_guard_excludes_is_not_proved() -> None:
    """A wrong spec never parks a request under a sliding window. Its window then cannot be lost."""
    name = "T-PARK / INV-WINDOW.req"
    strict = replace(t.T_PARK, guard={**t.T_PARK.guard, "no_window": ~state.config.swa})
    wrong = _results("T-PARK", Spec({**TRANSITIONS, "T-PARK": strict}))
    right = _results("T-PARK")
    assert (right[name].reason, wrong[name].reason) == ("inductive", "excluded")
    assert wrong[name].status == "proved"
    few, many = reasons(wrong.values()), reasons(right.values())
    assert few is not None and many is not None
    assert few["proved"] < many["proved"] and few["excluded"] > many["excluded"]
    assert many["proved"] + many["excluded"] == many["obligations"] == len(right)


def test_a_wrong_clause_is_excluded_where_its_premise_is_false() -> None:
    """No state satisfies the conclusion. Only a step that makes the premise true is refuted."""
    tokens = INVARIANTS["INV-TOKENS"]
    clause = implies(state.req.phase == state.MATCHED, state.req.output < 0)
    wrong = replace(tokens, conjuncts={**tokens.conjuncts, "wrong": clause})
    spec = Spec(invariants={**INVARIANTS, "INV-TOKENS": wrong})
    parked = _results("T-PARK", spec)["T-PARK / INV-TOKENS.wrong"]
    matched = _results("T-MATCH", spec)["T-MATCH / INV-TOKENS.wrong"]
    assert (parked.status, parked.reason) == ("proved", "excluded")
    assert (matched.status, matched.reason) == ("refuted", None)


def _renamed(value: Any) -> Any:
    """Return a copy of a part of a transition in which each parameter has another name."""
    if isinstance(value, Var):
        kind, _, name = value.name.partition(".")
        new = f"{kind}.{_other(name)}" if kind in ("param", "given") else value.name
        return replace(value, name=new)
    if isinstance(value, Expr):
        return App(value.op, _renamed(value.args)) if isinstance(value, App) else value
    if isinstance(value, Mapping):
        return {key: _renamed(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_renamed, value))
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: _renamed(getattr(value, field.name)) for field in fields(value)}
        return replace(value, **parts)
    return value


def _other(name: str) -> str:
    return f"a_{name[::-1]}_z"


def _with_other_names(transition: Transition) -> Transition:
    allows = _renamed(transition.allows)
    keys = {
        part: {_other(name): expr for name, expr in getattr(allows, part).items()}
        for part in ("params", "always")
    }
    renamed: Transition = _renamed(transition)
    return replace(renamed, allows=replace(allows, **keys))


@pytest.mark.parametrize("name", ["T-MATCH", "T-DISCARD"])
def test_the_name_of_a_parameter_changes_no_figure(name: str) -> None:
    other = _with_other_names(TRANSITIONS[name])
    assert set(other.names).isdisjoint(TRANSITIONS[name].names) and other.names
    before, after = _results(name), _results(name, Spec({**TRANSITIONS, name: other}))
    assert {of: result.reason for of, result in after.items()} == {
        of: result.reason for of, result in before.items()
    }
    assert reasons(after.values()) == reasons(before.values())


def test_reasons_are_decided_at_one_page_size() -> None:
    results, _ = prove(page_sizes=[1], jobs=1, only=["T-PARK"])
    assert reasons(results) is None
    assert {result.reason for result in results} == {None, "framing"}
