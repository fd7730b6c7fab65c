"""Contents of a trace in sentences: iterations, equations, and the owner of each page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slotproof.engines.base import EngineFailed
from slotproof.engines.reference import InProcessEngine
from slotproof.lockstep.observation import Holder, Violation
from slotproof.lockstep.referee import Setup, play
from slotproof.protocol.config import CONFIGS
from slotproof.reports import pages, sentences, text
from slotproof.reports.localisation import suspects
from slotproof.reports.page_map import Cell, page_maps
from slotproof.reports.sequence import LANES, WAYS
from slotproof.reports.trace import Trace, load_trace
from slotproof.reports.view import View
from slotproof.support import bounds
from slotproof.traces.frames import Frame, frame_of
from slotproof.traces.record import Row, rows_of
from slotproof.traces.runs import runs_in, spans
from slotproof_model.spec.transitions import TRANSITIONS

FINDINGS = Path(__file__).parents[3] / "docs" / "findings"


def finding(name: str) -> View:
    return View(load_trace(FINDINGS / f"sglang-{name}.itf.json"))


def of_rows(rows: list[Row], violations: list[Violation]) -> View:
    return View(Trace("x", "x", "x", CONFIGS["p1"], 0, rows, violations, minimal=False))


def view_of(mutant: str | None, config: str, commands: list[Any]) -> View:
    log = play(InProcessEngine(mutant), Setup(CONFIGS[config]), commands).log
    trace = Trace(
        "reference 1",
        "reference",
        "reference",
        CONFIGS[config],
        0,
        rows_of(log),
        log[-1].violations,
        minimal=False,
    )
    return View(trace)


@pytest.fixture
def lost(commands: Any) -> View:
    """#22862: a slot's last page is not freed before the next turn writes over it."""
    first, second = commands.submit("r1", length=1, max_new=0), commands.submit("r2", length=0)
    return view_of(
        "22862-no-free-tail", "p1", [commands.OPEN, first, commands.STEP, second, commands.STEP]
    )


def test_lanes_have_every_transition() -> None:
    assert set(WAYS) == set(TRANSITIONS)
    assert {lane for way in WAYS.values() for lane in way} <= set(LANES)


@pytest.mark.parametrize(
    ("transition", "way"),
    [
        ("T-OPEN", "client scheduler"),
        ("T-SUBMIT", "scheduler turn"),
        ("T-REJECT", "scheduler client"),
        ("T-MATCH", "tree turn"),
        ("T-RESTORE", "slot turn"),
        ("T-REFUSE", "turn slot"),
        ("T-EXTEND", "pool turn"),
        ("T-INSERT", "turn tree"),
        ("T-SAVE", "turn slot"),
        ("T-ABORT", "turn pool"),
        ("T-ABORT-PARTIAL", "slot pool"),
        ("T-EVICT", "tree pool"),
    ],
)
def test_a_lane_follows_from_what_moves(transition: str, way: str) -> None:
    assert " ".join(WAYS[transition]) == way


def test_a_lost_page_is_named_with_whose_it_was(lost: View) -> None:
    """INV-OWNER.lost."""
    assert sentences.headline(lost) == "1 token of the full pool is lost"
    assert sentences.whose(lost) == [
        "page 0 belongs to nobody. Owners: slot of s1 from step 3, nobody from step 5"
    ]
    assert sentences.kind(lost).startswith("Memory is really lost")
    page_map = lost.steps[-1].maps["full"]
    assert page_map is not None
    (cell,) = page_map.wrong
    assert (cell.kind, cell.pages, cell.changed) == ("lost", "0", True)
    assert cell.before == (Holder("slot", "s1"),)


def test_the_spec_beside_the_engine(lost: View) -> None:
    """INV-STEP.state: the field, both figures, and the last transition to move it. T-RESTORE should
    have freed the page and moves the field too, so none is marked."""
    assert [step.differs for step in lost.steps[:-1]] == [[]] * 4
    last = lost.steps[-1]
    assert last.differs[0] == {
        "what": "full.available",
        "variable": "full.available",
        "spec": 63,
        "engine": 62,
        "at": "T-EXTEND",
    }
    assert [arrow.label for arrow in last.arrows if arrow.bad] == []


def test_what_the_oracles_saw_is_shown_without_a_second_run(
    commands: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The referee's observations are stored, so lockstep does not run again."""
    first, second = commands.submit("r1", length=1, max_new=0), commands.submit("r2", length=0)
    played = [commands.OPEN, first, commands.STEP, second, commands.STEP]
    log = play(InProcessEngine("22862-no-free-tail"), Setup(CONFIGS["p1"]), played).log
    for name in ("follow", "differences"):
        monkeypatch.setattr(f"slotproof.lockstep.oracles.steps.{name}", None)
    rows = rows_of(log)
    assert rows[2].frames[-1].shares == {"full": {"held": 1, "uncached": 0}}
    assert [difference["what"] for difference in rows[-1].frames[-1].differs] == ["full.available"]


def test_a_name_with_a_space_is_one_name(scene: Any, commands: Any) -> None:
    """A client may choose any name. A name is a field, never parsed out of a sentence."""
    seen = scene([{"do": "open", "session": "a b"}, commands.STEP])
    seen.snapshot["sessions"]["a b"]["inflight"] = "r 1"
    violations = [violation for violation in seen.judge() if violation.clause == "INV-INFLIGHT.iff"]
    (differs,) = frame_of(seen.referee.log[-1].observations[-1]).differs
    assert (differs["session"], differs["variable"]) == ("a b", "session.inflight")
    frame = Frame(differs=[differs], check={"ran": False, "verdict": "off"})
    rows = [Row({"do": "step", "n": 1}, frames=[frame])]
    view = of_rows(rows, violations)
    assert sentences.headline(view) == "The engine reports a turn of a b in flight, but none exists"


def test_where_to_look_names_who_should_have_written(lost: View) -> None:
    (place,) = suspects(lost)
    assert place.why == "full.available is 62, the spec says 63"
    assert (place.how, place.events) == ("last changed by", ("T-EXTEND r2",))
    assert place.also == ("T-RESTORE r2",)


@pytest.mark.parametrize(
    ("name", "how", "events"),
    [
        ("0.5.23-stub-clears-inflight", "see", ("T-REJECT r2",)),
        (
            "0.5.23-retract-finishes",
            "the field was wrongly changed by one of:",
            ("T-RETRACT r1", "T-RESTORE r1", "T-EXTEND r1"),
        ),
        ("0.5.18-queued-abort", "see", ("T-ABORT-WAITING r1",)),
        (
            "0.5.12-swa-locked-full",
            "one of these transitions took or released a wrong page or lock:",
            ("T-EVICT", "T-MATCH r3", "T-EXTEND r3", "T-PLAIN-FINISH r3"),
        ),
        ("0.5.23-page-16-waits", "every iteration repeats only", ("T-MATCH r2", "T-REFUSE r2")),
        (
            "0.5.18-swa-chunked-prompt",
            "the spec does not allow this transition in this state:",
            ("T-INSERT",),
        ),
    ],
)
def test_where_to_look_in_a_finding(name: str, how: str, events: tuple[str, ...]) -> None:
    """The transition with the bug in its code is among the suspects."""
    first = suspects(finding(name))[0]
    assert (first.how, first.events) == (how, events)
    transition = TRANSITIONS[events[0].split()[0]]
    assert first.sentence(events[0]) == transition.sentence


@pytest.mark.parametrize(
    ("name", "how", "events"),
    [
        (
            "0.5.23-stub-clears-inflight",
            "T-SUBMIT r1 wrote a wrong value, or the field was changed by:",
            (
                "T-REJECT r2",
                "T-RESTORE r1",
                "T-MATCH r2",
                "T-EXTEND r1",
                "T-EXTEND r2",
                "T-PLAIN-FINISH r2",
            ),
        ),
        ("0.5.18-queued-abort", "written by", ("T-ABORT-WAITING r1",)),
    ],
)
def test_where_to_look_if_nothing_explains_it(name: str, how: str, events: tuple[str, ...]) -> None:
    first = suspects(View(replace(finding(name).trace, explained=None)))[0]
    assert (first.how, first.events) == (how, events)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("0.5.23-stub-clears-inflight", "A turn of s1 is in flight, but the engine reports none"),
        ("0.5.18-queued-abort", "The engine reports a turn of s1 in flight, but none exists"),
    ],
)
def test_which_way_round_they_disagree(name: str, says: str) -> None:
    """INV-INFLIGHT.iff."""
    assert sentences.headline(finding(name)) == says


def test_only_what_may_have_done_it_is_marked() -> None:
    """INV-STEP.state names the last step of the actor: T-EXTEND writes no session.inflight."""
    view = finding("0.5.23-stub-clears-inflight")
    assert any(violation.transition == "T-EXTEND" for violation in view.trace.violations)
    assert not [arrow for arrow in view.steps[-1].arrows if arrow.bad]


def test_a_step_that_is_forbidden_is_marked_with_its_reason() -> None:
    view = finding("0.5.10.post1-doomed-turn")
    marked = {arrow.label: arrow.reasons for arrow in view.steps[-1].arrows if arrow.bad}
    assert marked["T-EXTEND"][0] == (
        "INV-STEP.guard: T-EXTEND needs “t”: req.C is 3, t is 1 (r2 of s1)"
    )


def test_an_engine_that_dies_on_reset_left_nothing_waiting() -> None:
    """INV-ALIVE.crash at the first command."""
    broken = [Violation("INV-ALIVE", "crash", "on reset: boom " + "x" * 200)]
    rows = [Row({"do": "open", "session": "s1"})]
    view = of_rows(rows, broken)
    assert view.steps[-1].died
    assert sentences.headline(view).endswith("xxx…")


def test_without_pages_nothing_is_said_of_their_owners() -> None:
    broken = [Violation("INV-HISTORY", "history", "s1 has 2 tokens of history, expected 1")]
    rows = [Row({"do": "open", "session": "s1"}, transitions=["T-OPEN"])]
    view = of_rows(rows, broken)
    assert "does not have the owners" in sentences.kind(view)


def test_several_pages_of_one_kind_are_told_in_the_plural() -> None:
    stale = Cell(
        "4-5", 2, "stale", (Holder("tree"),), changed=False, readers=(Holder("request", "r2"),)
    )
    assert stale.words == "pages 4-5: r2 reads them, and they belong to the tree"
    lost = Cell("", 3, "lost", (), changed=False)
    assert lost.words == "3 pages: belong to nobody"


def test_a_lost_and_a_shared_page_cancel_out() -> None:
    """INV-OWNER: the sum is right, and the page states that the sum hides an error."""
    last = finding("0.5.18-swa-deferred-free").steps[-1]
    assert [pool.name for pool in last.pools if last.hidden(pool)] == ["swa"]
    assert last.check["verdict"] == "ok" and last.wrongly


def test_a_row_that_reads_what_is_not_kept_for_it() -> None:
    """INV-BACKED.protected: the stray page is shown beside the protected pages of the tree."""
    view = finding("0.5.12-swa-locked-full")
    page_map = view.steps[-1].maps["full"]
    assert page_map is not None
    (r2,) = [holding for holding in page_map.holdings if holding.name == "r2"]
    assert (r2.reads, r2.strays) == ("3-4", "1")


def test_a_guard_is_shown_with_its_formula() -> None:
    view = finding("0.5.18-swa-chunked-prompt")
    why = suspects(view)[0].why
    assert (
        why.startswith("T-INSERT needs “dup”: dup is -12 (r1 of s1): only whole ")
        and "(0 ≤ dup" in why
    )


@pytest.mark.parametrize("name", ["0.5.10.post1-double-count", "0.5.23-two-first-turns"])
def test_nowhere_to_look_where_only_the_check_is_wrong_or_nothing_is_left(name: str) -> None:
    assert suspects(finding(name)) == []


def test_iterations_in_which_nothing_changes_are_told_once() -> None:
    """A stall of 16 iterations: 14 repeat the second, and the last breaks the clause."""
    view = finding("0.5.23-page-16-waits")
    assert [step.label for step in view.steps if step.like_it] == ["4.2"]
    assert [step.label for step in view.steps if step.repeats] == [
        f"4.{part}" for part in range(3, 17)
    ]
    assert not view.steps[-1].repeats
    shown = pages.markdown(view)
    assert "| 4.2 | " in shown and "| 4.3 | " not in shown and "and 14 more like it" in shown


def test_commands_wait_and_iterations_run(lost: View) -> None:
    assert [step.ran for step in lost.steps] == [False, False, True, False, True]
    assert [step.number for step in lost.steps] == [1, 2, 3, 4, 5]
    pool = lost.steps[2].pools[0]
    assert pool.owned is not None and pool.owned.adds_up and pool.agree
    assert lost.steps[-1].pools[0].owned is not None
    assert lost.steps[-1].pools[0].owned.deltas["available"] == -1


def test_each_iteration_of_a_long_step_is_a_beat(commands: Any) -> None:
    turn = [commands.OPEN, commands.submit("r1", length=6), {"do": "step", "n": 6}]
    view = view_of(None, "p4", turn)
    assert len(view.steps) > 6
    assert {step.number for step in view.steps[2:]} == {3}
    assert view.steps[2].says == "scheduler iteration 1 of 6"


def test_what_the_engine_counts_beside_what_is_owned(commands: Any) -> None:
    """#22213, INV-ONCE.reported: no page is lost, and the two sums differ."""
    first = commands.submit("r1", length=1, max_new=0)
    second = commands.submit("r2", length=1, max_new=2)
    view = view_of(
        "22213-double-count", "p1", [commands.OPEN, first, commands.STEP, second, commands.STEP]
    )
    pool = view.steps[-1].pools[0]
    assert pool.owned is not None and pool.reported is not None
    assert (pool.owned.sum, pool.reported.sum, pool.agree) == (64, 65, False)
    assert sentences.headline(view) == (
        "The engine's own check counts 65 tokens in a full pool of 64"
    )
    assert sentences.kind(view).startswith("No page is lost")
    assert sentences.whose(view) == []
    assert view.steps[-1].wrongly


def test_an_engine_that_dies_leaves_the_state_before(commands: Any) -> None:
    """INV-ALIVE.crash."""

    class Mortal(InProcessEngine):
        def do(self, command: Any) -> Any:
            if command["do"] == "step" and command["n"] == 2:
                raise EngineFailed("crash", "boom")
            return super().do(command)

    referee = Setup(CONFIGS["p1"]).referee(Mortal())
    for command in (commands.OPEN, commands.STEP, {"do": "step", "n": 2}):
        violations = referee.do(command)
    view = of_rows(rows_of(referee.log), violations)
    last = view.steps[-1]
    assert last.died and not last.ran
    assert sentences.headline(view) == "The engine crashed: boom"
    assert [pool.name for pool in last.pools] == ["full"]


def test_a_command_that_runs_no_iteration_shows_none() -> None:
    path = Path(__file__).parents[1] / "snapshots" / "double-count.itf.json"
    view = View(load_trace(path))
    assert [step.ran for step in view.steps] == [False, False, True, False, True]
    assert [arrow.label for arrow in view.steps[-1].arrows] == ["T-SUBMIT", "T-RESTORE", "T-EXTEND"]


def frame(total: int, **holders: str) -> Frame:
    pools = {"full": {"total": total, "available": 0, "evictable": 0, "protected": 0}}
    pages: list[dict[str, Any]] = [{"kind": "free", "pages": holders.pop("free", "")}]
    pages += [{"kind": "slot", "name": name, "pages": text} for name, text in holders.items()]
    return Frame(pools=pools, pages={"full": pages})


def drawn(*frames: Frame) -> list[Cell]:
    """Return the cells of the last frame."""
    *_, last = page_maps(frames, "full", 1)[0]
    assert last is not None
    return last.cells


@pytest.mark.parametrize(
    ("pages", "wrong"),
    [
        (frame(4, free="0-1", s1="2 3", s2="3"), ("shared", "3", "s1+s2")),
        (frame(2, free="0 0 1"), ("shared", "0", "free+free")),  # INV-OWNER.free_twice
        (frame(4, free="1-3"), ("lost", "", "?")),  # never seen, so without a number
        (frame(4, free="1-2 4"), ("lost", "3", "?")),
    ],
)
def test_a_page_with_two_owners_or_none(pages: Frame, wrong: tuple[str, str, str]) -> None:
    """INV-OWNER.free_twice, and the other states of a page."""
    bad = [cell for cell in drawn(pages) if cell.kind not in ("available", "held")]
    assert [(cell.kind, cell.pages, cell.label) for cell in bad] == [wrong]


def test_neighbours_with_one_history_share_a_cell_in_a_large_pool() -> None:
    frames = [frame(5000, free="0-4999"), frame(5000, free="10-4999", s1="0-8", s2="8")]
    assert [(cell.pages, cell.kind) for cell in drawn(*frames)] == [
        ("0-7", "held"),
        ("8", "shared"),
        ("9", "lost"),
        ("10-4999", "available"),
    ]


def test_a_huge_pool_is_not_drawn() -> None:
    none, why = page_maps([frame(10**6, free="1-5")], "full", 1)
    assert none == [None] and "too many" in why


def test_a_page_that_is_read_and_not_kept() -> None:
    """INV-BACKED.protected, as in SGLang 0.5.12 with a sliding window."""
    (line, *_) = sentences.whose(finding("0.5.12-swa-locked-full"))
    assert line.startswith("page 1 of the full pool: r2 reads it, and it belongs to the free list")


@pytest.mark.parametrize(
    "text", ["1-", "--3", "x", "5-2", "-2--5", "１", "1_0", "1 2-99999999999999999"]
)
def test_what_is_no_run_of_pages(text: str) -> None:
    with pytest.raises(ValueError, match="run of page numbers"):
        runs_in(text)


def test_wrong_content_names_who_wrote_it_or_pointed_to_it() -> None:
    """Lengths, counts and owners are right, so no other clause points to the cause."""
    plain = {"do": "submit", "session": None, "tokens": [*range(1, 10)], "max_new": 2, "stop": []}
    step = {"do": "step", "n": 1}
    commands = [{**plain, "rid": "r1"}, step, {**plain, "rid": "r2"}, step]
    view = view_of("prefix-out-of-order", "p4", commands)
    assert view.trace.violations[0].invariant == "INV-CONTENT"
    (look,) = [suspect for suspect in suspects(view) if "pointed" in suspect.how]
    assert look.events[:2] == ("T-MATCH r2", "T-EXTEND r2")


def test_a_report_lists_the_sum_after_the_clause_that_says_why() -> None:
    """The trace has the reverse order, because the first clause names the finding."""
    view = finding("0.5.10.post1-retract-tail")
    assert view.trace.violations[0].clause == "INV-SUM-FULL.equation"
    listed = [violation.clause for violation in view.steps[-1].violations]
    assert listed[:3] == ["INV-OWNER.lost", "INV-LOCK.count", "INV-SUM-FULL.equation"]
    shown = text.render(view.trace, "T")
    assert shown.index("  INV-OWNER.lost: ") < shown.index("  INV-SUM-FULL.equation: ")


def without_content(snapshot: Any) -> Any:
    return {name: part for name, part in snapshot.items() if name != "content"}


@pytest.mark.parametrize("shows", [True, False])
def test_a_wrong_token_of_right_kv_is_not_called_wrong_kv(
    shows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """INV-CONTENT.tokens: with the KV checked, or not shown by the engine."""
    engine = InProcessEngine()
    do, expected = engine.do, engine.recompute([1, 2, 3], 2)
    wrong = [expected[0], expected[1] + 1]
    monkeypatch.setattr(engine, "recompute", lambda tokens, count: wrong)
    if not shows:
        monkeypatch.setattr(engine, "do", lambda command: [*map(without_content, do(command))])
    turn = {"do": "submit", "session": None, "rid": "r1", "tokens": [1, 2, 3], "max_new": 2}
    log = play(engine, Setup(CONFIGS["p1"]), [{**turn, "stop": []}, {"do": "step", "n": 3}]).log
    view = of_rows(rows_of(log), log[-1].violations)
    (violation,) = view.trace.violations
    assert violation.clause == "INV-CONTENT.tokens"
    assert violation.detail.endswith("; the KV in the snapshot is correct") == shows
    (look,) = suspects(view)
    assert look.events == ("T-DECODE r1",)
    assert look.why == (
        "the sampled tokens are wrong, the KV in the snapshot is correct"
        if shows
        else "the answer differs from the answer of a run without a cache"
    )


def test_a_page_that_no_pool_has(tmp_path: Path) -> None:
    """An engine may report any integer. The trace can still be read and drawn."""
    text = (FINDINGS / "sglang-0.5.12-swa-locked-full.itf.json").read_text()
    wild = f"-3 {bounds.INTEGER}"
    assert '"reads": "1 3-4"' in text
    named = tmp_path / "wild.itf.json"
    named.write_text(text.replace('"reads": "1 3-4"', f'"reads": "{wild}"'))
    page = pages.html(View(load_trace(named)))
    assert f"reads -3, {bounds.INTEGER}, which no lock protects" in page


def test_spans_and_back() -> None:
    odd = [[-3], [-4, -3, 9], [-1, 0, 1], [-bounds.INTEGER, bounds.INTEGER]]
    for numbers in (*odd, [], [3], [3, 4, 5], [5, 4, 4, 3], list(range(100)) * 2):
        runs = runs_in(spans(numbers))
        assert [page for a, b in runs for page in range(a, b + 1)] == numbers


@pytest.mark.slow
def test_a_short_text_of_many_pages_takes_no_memory() -> None:
    """Runs stay runs: one number per page made a trace of 434 KB take 2.1 GB."""
    held = " ".join(f"{10 * i}-999999999" for i in range(100))
    frames = [frame(64, free=held) for _ in range(100)]
    assert sum(cell.count for cell in drawn(*frames)) == 10**9
    many = frame(64, free=" ".join(f"{2 * i}-{2 * i}" for i in range(5000)))
    none, why = page_maps([many] * 100, "full", 1)
    assert none == [None] * 100 and "too many pages" in why


def test_a_figure_that_is_no_number() -> None:
    figures = dict.fromkeys(("available", "evictable", "protected", "held", "uncached"), 0)
    pools: Any = {"full": {**figures, "total": "x"}}
    row = Row({"do": "step", "n": 1}, frames=[Frame(pools=pools)])
    broken = Violation("INV-ONCE", "reported", "")
    with pytest.raises(TypeError):
        of_rows([row], [broken])
