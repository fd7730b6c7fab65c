"""``slotproof docs``: the committed documents are fresh, stale ones are named."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from slotproof.cli.app import status
from slotproof.spec_documents import contents, facts
from slotproof_model.proofs.obligations import tasks
from slotproof_model.spec import pages
from slotproof_model.spec.invariant import Kind, is_shown
from slotproof_model.spec.invariants import DERIVED, ENVIRONMENT, INVARIANTS
from slotproof_model.spec.memory import Move
from slotproof_model.spec.transitions import TRANSITIONS
from slotproof_model.spec.whole import Spec, conjuncts
from slotproof_model.text import render
from slotproof_model.text.lifecycle import lifecycles
from tests import spec_examples
from tests.checks.mutants import systematic
from tests.checks.wrong import WRONG

ROOT = Path(__file__).parents[3]
SPEC = ROOT / "docs" / "reference" / "spec"


@pytest.fixture(scope="module")
def documents() -> dict[str, str]:
    return contents.documents()


@pytest.mark.slow
def test_committed_documents_are_fresh(capsys: pytest.CaptureFixture[str]) -> None:
    """If stale: run `slotproof docs`, and read the difference before you commit it."""
    assert status(["docs", "--check", "--out", str(SPEC)]) == 0, capsys.readouterr().out
    assert "are up to date" in capsys.readouterr().out


@pytest.mark.slow
def test_stale_documents_are_named(tmp_path: Path, cli: Any) -> None:
    """Changed, missing and left-over documents give status 1 and their names. Rewriting helps."""
    out = ["--out", str(tmp_path / "spec")]
    assert status(["docs", *out]) == 0
    folder = tmp_path / "spec"
    (folder / "transitions" / "T-SAVE.md").write_text("edited by hand")
    (folder / "SlotproofActors.tla").unlink()
    (folder / "transitions" / "T-GONE.md").write_text(f"{contents.MARK}\n\n# T-GONE\n")
    (folder / "notes.md").write_text("somebody's own")
    stale = cli.json(["docs", "--check", "--json", *out], 1)["stale"]
    assert stale == ["transitions/T-SAVE.md", "SlotproofActors.tla", "transitions/T-GONE.md"]
    assert "T-SAVE.md" in cli(["docs", "--check", *out], 1)
    assert "3 changed" in cli(["docs", *out])
    assert status(["docs", "--check", *out]) == 0
    assert not (folder / "transitions" / "T-GONE.md").exists()
    assert (folder / "notes.md").read_text() == "somebody's own"


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--out", "{file}/below"], "can't be written to"),
        (["--check", "--out", "{file}"], "there is no "),
    ],
)
def test_one_line_and_status_2(argv: list[str], says: str, tmp_path: Path, cli: Any) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert says in cli.wrong(["docs", *(word.format(file=file) for word in argv)])


# Content of the pages ------------------------------------------------------------------


def test_no_trace_of_the_machine(documents: dict[str, str]) -> None:
    """No page has a path of the machine or a date."""
    for name, text in documents.items():
        assert str(ROOT) not in text and "/home/" not in text, name
        assert not re.search(r"\b20\d\d-\d\d-\d\d\b", text), name


def test_every_link_leads_somewhere(documents: dict[str, str]) -> None:
    """Within the pages, the file and the heading of every link exist."""
    for name, text in documents.items():
        for target, _, anchor in re.findall(r"\]\(([\w./-]+?\.md)(#([\w.-]+))?\)", text):
            path = (SPEC / name).parent / target
            assert path.exists(), (name, target)
            if anchor:
                headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
                slugs = {
                    re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
                    for heading in headings
                }
                assert anchor.lower() in slugs, (name, target, anchor)


def test_every_known_bug_has_its_places(documents: dict[str, str]) -> None:
    """A bug is on the page of each transition it lives in and of each invariant that finds it."""
    for name, bug in facts.bugs().items():
        assert f"## {name}\n" in documents["bugs.md"]
        assert bug.clauses or bug.exhibit, name
        for id_ in bug.lives:
            assert f"[{name}]" in documents[f"transitions/{id_}.md"]
        for id_ in bug.clauses:
            assert f"[{name}]" in documents[f"invariants/{id_}.md"]


def test_all_clauses_are_in_one_table(documents: dict[str, str]) -> None:
    """Every conjunct has one row. Exactly the goals of proofs are called proved."""
    table = {clause.name: clause.standing for clause in facts.clauses()}
    says = {f"{id_}.{conjunct}" for id_, inv in INVARIANTS.items() for conjunct in inv.conjuncts}
    seen = {f"{id_}.{conjunct}" for id_, inv in INVARIANTS.items() for conjunct in inv.observed}
    says |= {f"ENVIRONMENT.{name}" for name in DERIVED}
    assumed = {f"ENVIRONMENT.{name}" for name in ENVIRONMENT if name not in DERIVED}
    assert set(table) == says | seen | assumed and len(facts.clauses()) == len(table)
    named = {goal.clause for task in tasks(Spec()) for goal in task.goals}
    goals = {clause.replace("environment.", "ENVIRONMENT.") for clause in named}
    assert {name for name, how in table.items() if how in ("both", "proved")} == says
    assert says <= goals and not seen & goals and not assumed & goals
    evaluated = {**conjuncts(Spec(), Kind.STATE), **conjuncts(Spec(), Kind.STEP)}
    # No engine shows all values. The guards of events say the same.
    shown = {name for name, expr in evaluated.items() if is_shown(expr)}
    assert {name for name, how in table.items() if how == "both"} == shown
    rows = re.findall(r"^\| \[?([A-Z-]+\.\w+)", documents["clauses.md"], re.MULTILINE)
    assert sorted(rows) == sorted(table)


def test_the_prose_counts_what_is_there() -> None:
    """Systematic mutants of the spec, and wrong specs."""
    text = (ROOT / "docs" / "proof.md").read_text()
    assert f"{len(list(systematic())):,} systematic mutants" in text
    assert f"{len(WRONG)} wrong specs" in text


def test_review_page_covers_the_spec(documents: dict[str, str]) -> None:
    """Every transition is in one area, and every question names existing clauses."""
    areas = documents["review.md"].partition("## Questions by place of the change")[2]
    areas = areas.partition("## Paths easily missed")[0]
    assert sorted(re.findall(r"\(transitions/([\w-]+)\.md\)", areas)) == sorted(TRANSITIONS)
    questions = [line for line in areas.splitlines() if line.startswith("- [ ]")]
    assert len(questions) > 15
    for question in questions:
        clauses = re.findall(r"\(invariants/([\w-]+)\.md\)", question)
        assert clauses and set(clauses) <= set(INVARIANTS), question


@pytest.mark.parametrize("whose", lifecycles())
def test_picture_shows_the_life(whose: str) -> None:
    """Well-formed, every state and every transition is named, and nothing lies outside."""
    life = lifecycles()[whose]
    root = ET.fromstring(contents.pictures()[f"life-of-a-{whose}.svg"])
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    texts = [element for element in root.iter() if element.tag.endswith("}text")]
    shown = [element.text for element in texts]
    assert set(life.states) <= set(shown)
    for ids in life.moves.values():
        assert set(ids) <= set(shown)
    for text in texts:
        x, y = float(text.attrib["x"]), float(text.attrib["y"])
        assert 0 < x < width and 0 < y < height
    arcs = [element for element in root.iter() if element.tag.endswith("}path")]
    assert len(arcs) == len(life.moves)


def test_names_in_a_picture_do_not_meet() -> None:
    """Names do not overlap, so that the picture can be read on paper."""
    for whose in lifecycles():
        root = ET.fromstring(contents.pictures()[f"life-of-a-{whose}.svg"])
        boxes: list[tuple[float, float, float, float]] = []
        for element in root.iter():
            if element.tag.endswith("}text") and element.attrib.get("class") != "title":
                x, y = float(element.attrib["x"]), float(element.attrib["y"])
                half = len(element.text or "") * 6.7 / 2
                boxes.append((x - half, x + half, y - 10, y))
        for at, one in enumerate(boxes):
            for other in boxes[at + 1 :]:
                apart = one[1] <= other[0] or other[1] <= one[0]
                assert apart or one[3] <= other[2] or other[3] <= one[2], whose


def section(transition: str, title: str) -> str:
    """Return a section of the committed page of a transition."""
    text = (SPEC / "transitions" / f"{transition}.md").read_text(encoding="utf-8")
    return text.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_the_page_of_a_transition(documents: dict[str, Any]) -> None:
    """The page of T-REFUSE, as seen by a reviewer."""
    text = documents["transitions/T-REFUSE.md"]
    assert "| `req.phase` | `waiting` |" in text
    assert "| unlock | protected → evictable | `u` | `swa_u` |" in text
    assert "[#22753](https://github.com/sgl-project/sglang/pull/22753)" in text
    assert "[22753-sticky-active](../bugs.md#22753-sticky-active)" in text
    assert "| u_others | `frame.lock_max ≤ full.protected − u" in text


@pytest.mark.parametrize("transition", TRANSITIONS)
def test_the_page_of_a_transition_shows_its_choices(transition: str) -> None:
    """The committed page has the environment's formula, each rule for pages, and its parameters."""
    choices = section(transition, "Choices of the environment")
    assert render.block(TRANSITIONS[transition].allows.when)[0] in choices
    for pool in ("full", "swa"):
        for name in pages.effect(TRANSITIONS[transition], pool)[0]:
            row = rf"\| {name}( \*\(swa only\)\*)? \| {re.escape(pages.RULES[name])} \| `"
            assert re.search(row, choices)
    given = [name for name in facts.given(TRANSITIONS[transition]) if f"| `{name}` |" in choices]
    assert given == [*facts.given(TRANSITIONS[transition])]


def test_the_page_of_an_eviction_says_which_pages_are_evicted() -> None:
    """A locked page must stay. No guard over figures can express this."""
    text = section("T-EVICT", "Choices of the environment")
    assert "Only an unlocked page is evicted" in text
    assert "`page_evicted ⇒ ¬page.pin ∧ page.pins = 0`" in text


@pytest.mark.parametrize("transition", TRANSITIONS)
def test_the_page_of_a_transition_has_an_example(transition: str) -> None:
    """The example names pages where the transition moves some, and shows each variable set."""
    shown = section(transition, "Example")
    example = spec_examples.examples()[transition]
    for thing, before, after in example.changes:
        assert f"| {thing} | {before} | {after} |" in shown and before != after
    moved = {"free list", "tree", "row"} & {thing.split(" of ")[0] for thing, *_ in example.changes}
    assert bool(moved) == any(
        mem.move not in (Move.TAKE_ROW, Move.GIVE_ROW) for mem in TRANSITIONS[transition].memory
    )
    assert example.changes or TRANSITIONS[transition].detaches


def test_examples_are_fresh() -> None:
    """Otherwise: `python -m tests.spec_examples`, then `slotproof docs`."""
    assert spec_examples.FILE.read_text(encoding="utf-8") == spec_examples.document()


def test_an_example_that_the_spec_forbids_is_refused() -> None:
    """A story is no drawing: the spec takes its steps."""
    locked = spec_examples.STORIES[0].steps.partition("s T-OPEN")[0].rpartition("r1 T-PLAIN")[0]
    with pytest.raises(ValueError, match=r"-- T-EVICT n=2: T-EVICT / guard.full_evictable"):
        list(spec_examples.steps(spec_examples.Story(f"{locked}-- T-EVICT n=2")))
