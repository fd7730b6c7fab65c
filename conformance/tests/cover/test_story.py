"""What a trace tells: iterations, equations, whose each page is, in sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slotproof.conformance.engines.base import EngineFailed
from slotproof.conformance.engines.reference import InProcessEngine
from slotproof.conformance.lockstep.observation import Violation
from slotproof.conformance.lockstep.referee import Referee
from slotproof.conformance.protocol.config import CONFIGS
from slotproof.conformance.search import campaign
from slotproof.conformance.traces import itf, markdown, mermaid, words
from slotproof.conformance.traces.frames import Frame
from slotproof.conformance.traces.lanes import LANES, WAYS
from slotproof.conformance.traces.picture import Cell, pictures
from slotproof.conformance.traces.places import places
from slotproof.conformance.traces.runs import runs_in, spans
from slotproof.conformance.traces.story import Story
from slotproof.conformance.traces.trace import Row, Trace, rows_of
from slotproof.model.invariants import INVARIANTS
from slotproof.model.transitions import TRANSITIONS

FINDINGS = Path(__file__).parents[3] / "docs" / "findings"


def story_of(mutant: str | None, config: str, commands: list[Any]) -> Story:
    log = campaign.replay(InProcessEngine(mutant), CONFIGS[config], 0, commands).log
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
    return Story(trace)


@pytest.fixture
def lost(commands: Any) -> Story:
    """#22862: a slot's last page is not freed before the next turn writes over it."""
    first, second = commands.submit("r1", length=1, max_new=0), commands.submit("r2", length=0)
    return story_of(
        "22862-no-free-tail", "p1", [commands.OPEN, first, commands.STEP, second, commands.STEP]
    )


def test_lanes_have_every_transition() -> None:
    assert set(WAYS) == set(TRANSITIONS)
    assert {lane for way in WAYS.values() for lane in way} <= set(LANES)


def test_clauses_in_words_exist() -> None:
    there = {
        f"{each.id}.{name}"
        for each in INVARIANTS.values()
        for name in (*each.conjuncts, *each.observed)
    }
    assert set(words.CLAUSES) <= there


def test_a_lost_page_is_named_with_whose_it_was(lost: Story) -> None:
    """INV-OWNER.lost."""
    assert words.headline(lost) == "1 token of the full pool is lost"
    assert words.whose(lost) == [
        "page 0 belongs to nobody. Whose it was: slot of s1 from step 3, nobody from step 5"
    ]
    assert words.kind(lost).startswith("Memory is really lost")
    picture = lost.beats[-1].pictures["full"]
    assert picture is not None
    (cell,) = picture.wrong
    assert (cell.kind, cell.pages, cell.before, cell.changed) == (
        "lost",
        "0",
        ("slot of s1",),
        True,
    )


def test_the_spec_beside_the_engine(lost: Story) -> None:
    """INV-STEP.state: the field, both figures, and the transition that moved it last; T-RESTORE,
    which should have freed the page, moves it too, so none is marked."""
    assert [beat.differs for beat in lost.beats[:-1]] == [[]] * 4
    last = lost.beats[-1]
    assert last.differs[0] == {"what": "full.available", "spec": 63, "engine": 62, "at": "T-EXTEND"}
    assert [arrow.label for arrow in last.arrows if arrow.bad] == []


def test_where_to_look_names_who_should_have_written(lost: Story) -> None:
    (place,) = places(lost)
    assert place.why == "full.available is 62, the spec says 63"
    assert (place.how, place.events) == ("last moved by", ("T-EXTEND r2",))
    assert place.also == ("T-RESTORE r2",)


@pytest.mark.parametrize(
    ("finding", "how", "events"),
    [
        (
            "0.5.23-stub-clears-inflight",
            "T-SUBMIT r1 writes it; if it did, one of these undid it:",
            (
                "T-REJECT r2",
                "T-RESTORE r1",
                "T-MATCH r2",
                "T-EXTEND r1",
                "T-EXTEND r2",
                "T-PLAIN-FINISH r2",
            ),
        ),
        (
            "0.5.23-retract-finishes",
            "none of these may change it, one did:",
            ("T-RETRACT r1", "T-RESTORE r1", "T-EXTEND r1"),
        ),
        ("0.5.18-queued-abort", "written by", ("T-ABORT-WAITING r1",)),
        (
            "0.5.12-swa-locked-full",
            "one of these gave or took a wrong page, or lock:",
            ("T-EVICT", "T-MATCH r3", "T-EXTEND r3", "T-PLAIN-FINISH r3"),
        ),
        ("0.5.23-page-16-waits", "each iteration is only", ("T-MATCH r2", "T-REFUSE r2")),
        ("0.5.18-swa-chunked-prompt", "not allowed here:", ("T-INSERT",)),
    ],
)
def test_where_to_look_in_a_finding(finding: str, how: str, events: tuple[str, ...]) -> None:
    """The transition whose code has the bug is among those named."""
    story = Story(itf.load(FINDINGS / f"sglang-{finding}.itf.json"))
    first = places(story)[0]
    assert (first.how, first.events) == (how, events)
    name = events[0].split()[0]
    assert first.steps[0] == (events[0], TRANSITIONS[name].sentence)


@pytest.mark.parametrize(
    ("finding", "says"),
    [
        ("0.5.23-stub-clears-inflight", "A turn of s1 is in flight, and the engine says none is"),
        ("0.5.18-queued-abort", "The engine says a turn of s1 is in flight, and none is"),
    ],
)
def test_which_way_round_they_disagree(finding: str, says: str) -> None:
    """INV-INFLIGHT.iff."""
    assert words.headline(Story(itf.load(FINDINGS / f"sglang-{finding}.itf.json"))) == says


def test_only_what_may_have_done_it_is_marked() -> None:
    """INV-STEP.state names the last step of the actor: T-EXTEND writes no session.inflight."""
    story = Story(itf.load(FINDINGS / "sglang-0.5.23-stub-clears-inflight.itf.json"))
    assert any(each.transition == "T-EXTEND" for each in story.trace.violations)
    assert not [arrow for arrow in story.beats[-1].arrows if arrow.bad]


def test_a_step_that_is_forbidden_is_marked_with_its_reason() -> None:
    story = Story(itf.load(FINDINGS / "sglang-0.5.10.post1-doomed-turn.itf.json"))
    marked = {arrow.label: arrow.reasons for arrow in story.beats[-1].arrows if arrow.bad}
    assert marked["T-EXTEND"][0] == "INV-STEP.guard: T-EXTEND needs “t” (r2 of s1)"


def test_an_engine_that_dies_on_reset_left_nothing_waiting() -> None:
    """INV-ALIVE.crash at the first command."""
    broken = [Violation("INV-ALIVE", "crash", "on reset: boom " + "x" * 200)]
    rows = [Row({"do": "open", "session": "s1"})]
    story = Story(Trace("x", "x", "x", CONFIGS["p1"], 0, rows, broken, minimal=False))
    assert story.beats[-1].died
    assert words.headline(story).endswith("xxx…")


def test_without_pages_nothing_is_said_of_their_owners() -> None:
    broken = [Violation("INV-HISTORY", "history", "s1 remembers 2 tokens, its client 1")]
    rows = [Row({"do": "open", "session": "s1"}, transitions=["T-OPEN"])]
    story = Story(Trace("x", "x", "x", CONFIGS["p1"], 0, rows, broken, minimal=False))
    assert "the trace does not say" in words.kind(story)


def test_several_pages_of_one_kind_are_told_in_the_plural() -> None:
    stale = Cell("4-5", 2, "stale", ("the tree",), changed=False, readers=("r2",))
    assert stale.words == "pages 4-5: r2 reads them, and they belong to the tree"
    lost = Cell("", 3, "lost", (), changed=False)
    assert lost.words == "3 pages: belong to nobody"


def test_a_lost_and_a_shared_page_cancel_out() -> None:
    """INV-OWNER: the sum is right, and the page says that it hides something."""
    last = Story(itf.load(FINDINGS / "sglang-0.5.18-swa-deferred-free.itf.json")).beats[-1]
    assert [pool.name for pool in last.pools if last.hidden(pool)] == ["swa"]
    assert last.check["verdict"] == "ok" and last.wrongly


def test_a_row_that_reads_what_is_not_kept_for_it() -> None:
    """INV-BACKED.protected: beside the pages of the tree that are."""
    story = Story(itf.load(FINDINGS / "sglang-0.5.12-swa-locked-full.itf.json"))
    picture = story.beats[-1].pictures["full"]
    assert picture is not None
    (mine,) = [each for each in picture.holdings if each.name == "r2"]
    assert (mine.reads, mine.strays) == ("3-4", "1")


def test_a_guard_is_shown_with_its_formula() -> None:
    story = Story(itf.load(FINDINGS / "sglang-0.5.18-swa-chunked-prompt.itf.json"))
    assert places(story)[0].why.startswith("T-INSERT needs “dup” (r1 of s1): 0 ≤ dup")


@pytest.mark.parametrize("finding", ["0.5.10.post1-double-count", "0.5.23-two-first-turns"])
def test_nowhere_to_look_where_only_the_check_is_wrong_or_nothing_is_left(finding: str) -> None:
    assert places(Story(itf.load(FINDINGS / f"sglang-{finding}.itf.json"))) == []


def test_iterations_in_which_nothing_changes_are_told_once() -> None:
    """A stall of 16 iterations: the second has 14 like it, the last breaks the clause."""
    story = Story(itf.load(FINDINGS / "sglang-0.5.23-page-16-waits.itf.json"))
    assert [beat.label for beat in story.beats if beat.like_it] == ["4.2"]
    assert [beat.label for beat in story.beats if beat.repeats] == [
        f"4.{part}" for part in range(3, 17)
    ]
    assert not story.beats[-1].repeats
    shown = markdown.render(story)
    assert "| 4.2 | " in shown and "| 4.3 | " not in shown
    assert "and 14 more like it" in mermaid.render(story)


def test_commands_wait_and_iterations_run(lost: Story) -> None:
    assert [beat.ran for beat in lost.beats] == [False, False, True, False, True]
    assert [beat.number for beat in lost.beats] == [1, 2, 3, 4, 5]
    pool = lost.beats[2].pools[0]
    assert pool.owned is not None and pool.owned.adds_up and pool.agree
    assert lost.beats[-1].pools[0].owned is not None
    assert lost.beats[-1].pools[0].owned.deltas["available"] == -1


def test_each_iteration_of_a_long_step_is_a_beat(commands: Any) -> None:
    turn = [commands.OPEN, commands.submit("r1", length=6), {"do": "step", "n": 6}]
    story = story_of(None, "p4", turn)
    assert len(story.beats) > 6
    assert {beat.number for beat in story.beats[2:]} == {3}
    assert story.beats[2].says == "scheduler iteration 1 of 6"


def test_what_the_engine_counts_beside_what_is_owned(commands: Any) -> None:
    """#22213, INV-ONCE.reported: no page is lost, and the two sums differ."""
    first = commands.submit("r1", length=1, max_new=0)
    second = commands.submit("r2", length=1, max_new=2)
    story = story_of(
        "22213-double-count", "p1", [commands.OPEN, first, commands.STEP, second, commands.STEP]
    )
    pool = story.beats[-1].pools[0]
    assert pool.owned is not None and pool.reported is not None
    assert (pool.owned.sum, pool.reported.sum, pool.agree) == (64, 65, False)
    assert words.headline(story) == ("The engine's own check counts 65 tokens in a full pool of 64")
    assert words.kind(story).startswith("No page is lost")
    assert words.whose(story) == []
    assert story.beats[-1].wrongly


def test_an_engine_that_dies_leaves_the_state_before(commands: Any) -> None:
    """INV-ALIVE.crash."""

    class Mortal(InProcessEngine):
        def do(self, command: Any) -> Any:
            if command["do"] == "step" and command["n"] == 2:
                raise EngineFailed("crash", "boom")
            return super().do(command)

    referee = Referee(Mortal(), CONFIGS["p1"])
    for command in (commands.OPEN, commands.STEP, {"do": "step", "n": 2}):
        violations = referee.do(command)
    story = Story(
        Trace("x", "x", "x", CONFIGS["p1"], 0, rows_of(referee.log), violations, minimal=False)
    )
    last = story.beats[-1]
    assert last.died and not last.ran
    assert words.headline(story) == "The engine crashed: boom"
    assert [pool.name for pool in last.pools] == ["full"]


def test_an_old_trace_has_figures_and_says_why_no_pages() -> None:
    """Traces were written without iterations once."""
    path = Path(__file__).parents[1] / "snapshots" / "double-count.itf.json"
    story = Story(itf.load(path))
    assert not story.detailed
    assert [beat.ran for beat in story.beats] == [False, False, True, False, True]
    assert "older" in story.undrawn["full"]
    assert [arrow.label for arrow in story.beats[-1].arrows] == [
        "T-SUBMIT",
        "T-RESTORE",
        "T-EXTEND",
    ]
    assert words.headline(story) == ("The engine's own check counts 65 tokens in a full pool of 64")


def frame(total: int, **holders: str) -> Frame:
    pools = {"full": {"total": total, "available": 0, "evictable": 0, "protected": 0}}
    pages: list[dict[str, Any]] = [{"kind": "free", "pages": holders.pop("free", "")}]
    pages += [{"kind": "slot", "name": name, "pages": text} for name, text in holders.items()]
    return Frame(pools=pools, pages={"full": pages})


def test_a_page_with_two_owners() -> None:
    drawn, _ = pictures([frame(4, free="0-1", s1="2 3", s2="3")], "full", 1)
    assert drawn[0] is not None
    (cell,) = drawn[0].wrong
    assert (cell.kind, cell.pages, cell.short) == ("shared", "3", "s1+s2")


def test_a_page_that_is_free_twice_has_two_owners() -> None:
    """INV-OWNER.free_twice."""
    drawn, _ = pictures([frame(2, free="0 0 1")], "full", 1)
    assert drawn[0] is not None and drawn[0].wrong[0].owners == ("the free list",) * 2


def test_a_page_that_was_never_seen_is_drawn_without_a_number() -> None:
    drawn, _ = pictures([frame(4, free="1-3")], "full", 1)
    assert drawn[0] is not None
    assert [(cell.kind, cell.pages) for cell in drawn[0].wrong] == [("lost", "")]


def test_a_gap_in_the_numbers_is_a_lost_page() -> None:
    drawn, _ = pictures([frame(4, free="1-2 4")], "full", 1)
    assert drawn[0] is not None
    assert [(cell.kind, cell.pages) for cell in drawn[0].wrong] == [("lost", "3")]


def test_neighbours_with_one_history_share_a_cell_in_a_large_pool() -> None:
    frames = [frame(5000, free="0-4999"), frame(5000, free="10-4999", s1="0-8", s2="8")]
    drawn, _ = pictures(frames, "full", 1)
    assert drawn[1] is not None
    assert [(cell.pages, cell.kind) for cell in drawn[1].cells] == [
        ("0-7", "held"),
        ("8", "shared"),
        ("9", "lost"),
        ("10-4999", "available"),
    ]


def test_a_huge_pool_is_not_drawn() -> None:
    drawn, why = pictures([frame(10**6, free="1-5")], "full", 1)
    assert drawn == [None]
    assert "too many" in why


def test_a_page_that_is_read_and_not_kept() -> None:
    """INV-BACKED.protected, as in SGLang 0.5.12 with a sliding window."""
    trace = itf.load(FINDINGS / "sglang-0.5.12-swa-locked-full.itf.json")
    story = Story(trace)
    assert words.whose(story)[0].startswith(
        "page 1 of the full pool: r2 reads it, and it belongs to the free list"
    )


@pytest.mark.parametrize("text", ["1-", "-3", "x", "5-2", "１", "1_0", "1 2-9999999999"])
def test_what_is_no_run_of_pages(text: str) -> None:
    with pytest.raises(ValueError, match="run of pages"):
        runs_in(text)


def test_spans_and_back() -> None:
    for pages in ([], [3], [3, 4, 5], [5, 4, 4, 3], list(range(100)) * 2):
        runs = runs_in(spans(pages))
        assert [page for a, b in runs for page in range(a, b + 1)] == pages


def test_a_short_text_of_many_pages_takes_no_memory() -> None:
    """Runs stay runs: a trace of 434 KB took 2.1 GB when each page was a number."""
    held = " ".join(f"{10 * i}-999999999" for i in range(100))
    frames = [frame(64, free=held) for _ in range(100)]
    (first, *_), _ = pictures(frames, "full", 1)
    assert first is not None
    assert sum(cell.count for cell in first.cells) == 10**9
    many = frame(64, free=" ".join(f"{2 * i}-{2 * i}" for i in range(5000)))
    drawn, why = pictures([many] * 100, "full", 1)
    assert drawn == [None] * 100
    assert "too much to draw" in why


def test_a_figure_that_is_no_number() -> None:
    pools: Any = {
        "full": {
            "total": "x",
            "available": 1,
            "evictable": 0,
            "protected": 0,
            "held": 0,
            "uncached": 0,
        }
    }
    row = Row({"do": "step", "n": 1}, pools=pools)
    broken = Violation("INV-ONCE", "reported", "")
    with pytest.raises(TypeError):
        Story(Trace("x", "x", "x", CONFIGS["p1"], 0, [row], [broken], minimal=False))
