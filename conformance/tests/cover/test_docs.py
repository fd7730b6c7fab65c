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
from slotproof_model.spec.invariant import Kind
from slotproof_model.spec.invariants import DERIVED, ENVIRONMENT, INVARIANTS
from slotproof_model.spec.transitions import TRANSITIONS
from slotproof_model.spec.whole import Spec, conjuncts
from slotproof_model.text.lifecycle import lifecycles
from tests.checks.mutants import systematic
from tests.checks.wrong import WRONG

ROOT = Path(__file__).parents[3]
SPEC = ROOT / "docs" / "reference" / "spec"


@pytest.fixture(scope="module")
def documents() -> dict[str, str]:
    return contents.documents()


@pytest.mark.slow
def test_committed_documents_are_fresh(capsys: pytest.CaptureFixture[str]) -> None:
    """Else: `slotproof docs`, and look at the difference before you commit it."""
    assert status(["docs", "--check", "--out", str(SPEC)]) == 0, capsys.readouterr().out
    assert "are what the spec says" in capsys.readouterr().out


@pytest.mark.slow
def test_stale_documents_are_named(tmp_path: Path, cli: Any) -> None:
    """Changed, missing and left over: status 1 and the names; written anew, all is well."""
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
        (["--check", "--out", "{file}"], "there are no documents in"),
    ],
)
def test_one_line_and_status_2(argv: list[str], says: str, tmp_path: Path, cli: Any) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert says in cli.wrong(["docs", *(each.format(file=file) for each in argv)])


# What the pages say --------------------------------------------------------------------


def test_no_trace_of_the_machine(documents: dict[str, str]) -> None:
    """Neither a path of the machine nor a date is in them."""
    for name, text in documents.items():
        assert str(ROOT) not in text and "/home/" not in text, name
        assert not re.search(r"\b20\d\d-\d\d-\d\d\b", text), name


def test_every_link_leads_somewhere(documents: dict[str, str]) -> None:
    """Within the pages: the file exists, and so does the heading."""
    for name, text in documents.items():
        for target, _, anchor in re.findall(r"\]\(([\w./-]+?\.md)(#([\w.-]+))?\)", text):
            path = (SPEC / name).parent / target
            assert path.exists(), (name, target)
            if anchor:
                headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
                slugs = {
                    re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings
                }
                assert anchor.lower() in slugs, (name, target, anchor)


def test_every_known_bug_has_its_places(documents: dict[str, str]) -> None:
    """On the page of each transition where it lives and of each invariant that finds it."""
    for name, bug in facts.bugs().items():
        assert f"## {name}\n" in documents["bugs.md"]
        assert bug.clauses or bug.exhibit, name
        for id_ in bug.lives:
            assert f"[{name}]" in documents[f"transitions/{id_}.md"]
        for id_ in bug.clauses:
            assert f"[{name}]" in documents[f"invariants/{id_}.md"]


def test_all_clauses_are_in_one_table(documents: dict[str, str]) -> None:
    """Every conjunct once; what is called proved is a goal of a proof, and nothing else is."""
    table = {each.name: each.standing for each in facts.clauses()}
    says = {f"{id_}.{each}" for id_, inv in INVARIANTS.items() for each in inv.conjuncts}
    seen = {f"{id_}.{each}" for id_, inv in INVARIANTS.items() for each in inv.observed}
    says |= {f"ENVIRONMENT.{each}" for each in DERIVED}
    assumed = {f"ENVIRONMENT.{each}" for each in ENVIRONMENT if each not in DERIVED}
    assert set(table) == says | seen | assumed and len(facts.clauses()) == len(table)
    named = {goal.clause for task in tasks(Spec()) for goal in task.goals}
    goals = {each.replace("environment.", "ENVIRONMENT.") for each in named}
    assert {name for name, how in table.items() if how in ("both", "proved")} == says
    assert says <= goals and not seen & goals and not assumed & goals
    evaluated = {*conjuncts(Spec(), Kind.STATE), *conjuncts(Spec(), Kind.STEP)}
    assert {name for name, how in table.items() if how == "both"} == evaluated
    rows = re.findall(r"^\| \[?([A-Z-]+\.\w+)", documents["clauses.md"], re.MULTILINE)
    assert sorted(rows) == sorted(table)


def test_the_prose_counts_what_is_there() -> None:
    """Systematic mutants of the spec, and wrong specs."""
    text = (ROOT / "docs" / "proof.md").read_text()
    assert f"{len(list(systematic())):,} systematic mutants" in text
    assert f"{len(WRONG)} wrong specs" in text


def test_review_page_covers_the_spec(documents: dict[str, str]) -> None:
    """Every transition is in one area, and every question is about clauses that exist."""
    areas = documents["review.md"].partition("## By what the change touches")[2]
    areas = areas.partition("## Paths that are easily forgotten")[0]
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
    texts = [each for each in root.iter() if each.tag.endswith("}text")]
    shown = [each.text for each in texts]
    assert set(life.states) <= set(shown)
    for ids in life.moves.values():
        assert set(ids) <= set(shown)
    for text in texts:
        x, y = float(text.attrib["x"]), float(text.attrib["y"])
        assert 0 < x < width and 0 < y < height
    arcs = [each for each in root.iter() if each.tag.endswith("}path")]
    assert len(arcs) == len(life.moves)


def test_names_in_a_picture_do_not_meet() -> None:
    """No name lies on another: they are to be read on paper."""
    for whose in lifecycles():
        root = ET.fromstring(contents.pictures()[f"life-of-a-{whose}.svg"])
        boxes: list[tuple[float, float, float, float]] = []
        for each in root.iter():
            if each.tag.endswith("}text") and each.attrib.get("class") != "title":
                x, y = float(each.attrib["x"]), float(each.attrib["y"])
                half = len(each.text or "") * 6.7 / 2
                boxes.append((x - half, x + half, y - 10, y))
        for at, one in enumerate(boxes):
            for other in boxes[at + 1 :]:
                apart = one[1] <= other[0] or other[1] <= one[0]
                assert apart or one[3] <= other[2] or other[3] <= one[2], whose


def test_the_page_of_a_transition(documents: dict[str, Any]) -> None:
    """T-REFUSE, whole: what a reviewer sees of it."""
    text = documents["transitions/T-REFUSE.md"]
    assert "| `req.phase` | `waiting` |" in text
    assert "| unlock | protected → evictable | `u` | `swa_u` |" in text
    assert "[#22753](https://github.com/sgl-project/sglang/pull/22753)" in text
    assert "[22753-sticky-active](../bugs.md#22753-sticky-active)" in text
    assert "| u_others | `frame.lock_max ≤ full.protected − u" in text
