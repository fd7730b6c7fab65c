"""Long runs give the same result for any number of workers and kills, and their folders merge."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slotproof.cli import progress_line as telling
from slotproof.engines.base import Subject
from slotproof.engines.reference import InProcessEngine
from slotproof.engines.registry import EngineSpec
from slotproof.protocol.config import CONFIGS
from slotproof.search import campaign
from slotproof.search.campaign import Outcome
from slotproof.search.examples import Search, Searched
from slotproof.search.journal import BadJournal, Head, Journal, Remembering, Run, read
from slotproof.search.page import left, merged
from slotproof.search.plan import Clock, Plan
from slotproof.search.workers import Here, Processes, Workers

TRACES = Path(__file__).parents[3] / "docs" / "findings"
NOISE, LEAK = "22213-double-count", "22862-no-free-tail"
BOTH = f"{NOISE}+{LEAK}"
SOME = {name: CONFIGS[name] for name in ("p1", "p4-draft")}
PLAN = Plan(SOME, examples=40, steps=20, shrink=60, distinct=None)
SUBJECT = Subject.of(InProcessEngine(BOTH), f"reference:{BOTH}")


def go_on(path: Path, workers: Workers | None = None, plan: Plan = PLAN) -> Outcome:
    pool = workers or Here(InProcessEngine(BOTH))
    with closing(Journal(path, Head.of(SUBJECT, "", plan))) as journal:
        memory = Remembering(journal.run, pool, journal)
        clock = Clock(plan.seconds, journal.run.taken)
        outcome = campaign.Campaign(SUBJECT, plan, memory, clock=clock).run()
        journal.end(outcome.findings, {})
    assert not journal.problem
    return outcome


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """Return a campaign that ran to its end."""
    path = tmp_path_factory.mktemp("whole") / "a.journal.jsonl"
    return path, go_on(path)


Whole = tuple[Path, Outcome]


def facts(outcome: Outcome) -> list[Any]:
    """Return the outcome without its times."""
    points = [replace(point, seconds=0.0) for point in outcome.points]
    return [outcome.findings, outcome.covered, outcome.run, outcome.shown, points, outcome.replays]


def only(path: Path) -> Run:
    (run,) = read(path)[0]
    return run


# The same campaign -------------------------------------------------------------------------------


def test_it_finds_what_a_campaign_without_a_journal_finds(whole: Whole) -> None:
    plain = campaign.run(InProcessEngine(BOTH), SUBJECT.spec, PLAN)
    assert facts(whole[1]) == facts(plain) and plain.examples == 40
    assert "INV-SUM-FULL.reported@T-RESTORE" in {finding.id for finding in plain.findings}


def test_the_journal_alone_tells_all(whole: Whole) -> None:
    again = only(whole[0]).outcome()
    assert facts(again) == facts(whole[1]) and not again.interrupted
    times = [point.seconds for point in again.points]
    assert times == sorted(times)
    assert 0 < again.points[-1].seconds <= again.seconds


@pytest.mark.slow
def test_jobs_change_nothing(whole: Whole, tmp_path: Path) -> None:
    with closing(Processes(EngineSpec(SUBJECT.spec, step_timeout=600), 2)) as workers:
        assert facts(go_on(tmp_path / "a", workers)) == facts(whole[1])


CUTS = 6


@pytest.mark.slow
@pytest.mark.parametrize("number", range(CUTS))
def test_a_journal_that_was_cut_anywhere_becomes_the_same(
    number: int, whole: Whole, tmp_path: Path
) -> None:
    """A kill leaves the journal up to some byte, with the last line torn."""
    data, path = whole[0].read_bytes(), tmp_path / "a"
    begun = data.index(b"\n") + 1
    path.write_bytes(data[: random.Random(number).randrange(begun, len(data))])
    assert facts(go_on(path)) == facts(whole[1])
    assert facts(only(path).outcome()) == facts(whole[1])


class Dying(Here):
    """Workers that stop after a few results, as if the process had been killed."""

    def __init__(self, draw: random.Random) -> None:
        super().__init__(InProcessEngine(BOTH))
        self.draw, self.deaths = draw, 0

    def map(self, tasks: Any, event: Any, stop: Any, done: Any = None) -> Any:
        kept, order = self.draw.randrange(3), list(range(len(tasks)))
        results: dict[int, Any] = {}
        self.draw.shuffle(order)  # as many workers end
        for index in order:
            if len(results) == kept:
                self.deaths += 1
                raise Killed
            results[index] = tasks[index].run(self.engine, lambda what: event(0, what), stop)
            done(index, results[index])
        return [results[index] for index in range(len(tasks))]


class Late(Here):
    """Workers with time for ``batches`` batches. Later batches get no time, until an interrupt."""

    def __init__(self, batches: int) -> None:
        super().__init__(InProcessEngine(BOTH))
        self.left, self.idle = batches, 0

    def map(self, tasks: Any, event: Any, stop: Any, done: Any = None) -> Any:
        results = []
        for number, task in enumerate(tasks):
            if isinstance(task, Search) and not self.left:
                self.idle += 1
                result: Any = Searched(rest=task.batch)
            else:
                self.left -= isinstance(task, Search)
                result = task.run(self.engine, lambda what: event(0, what), stop)
            done(number, result)
            results.append(result)
        if self.idle > 5:
            raise KeyboardInterrupt
        return results


def test_batches_without_time_for_an_example_are_tried_again(tmp_path: Path) -> None:
    """Such batches write equal lines, so a reader must not wait for a different one."""
    path, plan = tmp_path / "a", replace(PLAN, examples=None, seconds=3600.0)
    outcome = go_on(path, Late(3), plan)
    assert outcome.examples and outcome.interrupted
    assert only(path).outcome().examples == outcome.examples
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))  # not at its end
    assert go_on(path, Late(2), plan).examples > outcome.examples


def test_words_without_an_encoding_are_kept(whole: Whole, tmp_path: Path) -> None:
    """An in-process engine may report any text."""
    finding = whole[1].findings[0]
    wrong = replace(finding.trace.violations[0], detail="bad byte \udc80, ≠")
    finding = replace(finding, trace=replace(finding.trace, violations=[wrong]))
    with closing(Journal(tmp_path / "a", Head.of(SUBJECT, "", PLAN))) as journal:
        journal.end([finding], {})
    end = only(tmp_path / "a").end
    assert end is not None
    assert end.findings[0].trace.violations[0].detail == "bad byte \\udc80, ≠"


class Killed(BaseException):
    """A kill. Nothing runs after it."""


@pytest.mark.slow
def test_killed_again_and_again_in_any_order_it_becomes_the_same(
    whole: Whole, tmp_path: Path
) -> None:
    workers = Dying(random.Random(1))
    for _ in range(60):
        try:
            outcome = go_on(tmp_path / "a", workers)
        except Killed:
            half = only(tmp_path / "a").outcome()  # a report while it runs
            assert half.interrupted and half.examples <= 40
            continue
        assert workers.deaths >= 3 and facts(outcome) == facts(whole[1])
        return
    pytest.fail("it did not come to an end")


@pytest.mark.parametrize(
    "changed", [{"seed": 1}, {"steps": 21}, {"examples": 41}, {"configs": {"p1": CONFIGS["p1"]}}]
)
def test_another_plan_begins_a_campaign_of_its_own(
    changed: dict[str, Any], whole: Whole, tmp_path: Path
) -> None:
    """A finished campaign is not resumed either: the engine may have changed since."""
    path, lines = tmp_path / "a", whole[0].read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    for plan, done in ((PLAN, True), (replace(PLAN, **changed), False)):
        with closing(Journal(path, Head.of(SUBJECT, "", plan))) as journal:
            assert bool(journal.run.done) == done
    first, second = read(path)[0]
    assert first.done and not second.done and path.read_bytes().startswith(b"".join(lines[:-1]))
    with closing(Journal(whole[0], Head.of(SUBJECT, "", PLAN))) as journal:
        assert not journal.run.done
    whole[0].write_bytes(b"".join(lines))


def test_one_process_writes(tmp_path: Path) -> None:
    head = Head.of(SUBJECT, "", PLAN)
    with (
        closing(Journal(tmp_path / "a", head)),
        pytest.raises(BadJournal, match="another run writes to this journal"),
    ):
        Journal(tmp_path / "a", head)
    Journal(tmp_path / "a", head).close()


@pytest.mark.slow
def test_a_full_disk_ends_no_search_and_leaves_a_whole_journal(
    whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, write, room = tmp_path / "a", os.write, [20_000]

    def full(number: int, data: Any) -> int:
        if room[0] <= 0:
            raise OSError(28, "No space left on device")
        count = write(number, bytes(data)[: room[0]])
        room[0] -= count
        return count

    monkeypatch.setattr(os, "write", full)
    with closing(Journal(path, Head.of(SUBJECT, "", PLAN))) as journal:
        memory = Remembering(journal.run, Here(InProcessEngine(BOTH)), journal)
        assert facts(campaign.Campaign(SUBJECT, PLAN, memory).run()) == facts(whole[1])
    assert "No space left on device; all lines so far are complete" in journal.problem
    monkeypatch.undo()
    assert path.read_bytes().endswith(b"\n") and facts(go_on(path)) == facts(whole[1])


# Untrusted journals ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{}\n", "line 2: "),
        (b'{"kind":"task","key":"a","at":-1,"told":0,"result":[]}\n', "line 2: task/at: "),
        (b'{"kind":"end","at":0,"findings":[{}],"removed":{}}\n', "line 2: end/findings/0/mark: "),
    ],
)
def test_nonsense_is_one_line(line: bytes, says: str, whole: Whole, tmp_path: Path) -> None:
    first, second = whole[0].read_bytes().splitlines(keepends=True)[:2]
    (tmp_path / "a").write_bytes(first + line + second)
    with pytest.raises(BadJournal, match=re.escape(says)) as raised:
        read(tmp_path / "a")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda head: head.update(profile="no-such"), "unknown profile"),
        (lambda head: head["subject"]["capabilities"].update(transitions=["T-NONE"]), "'T-NONE'"),
        (lambda head: head["configs"]["p1"].update(page_size=0), "page_size"),
    ],
)
def test_a_head_that_no_campaign_has_is_one_line(
    change: Callable[[Any], None], says: str, whole: Whole, tmp_path: Path, cli: Any
) -> None:
    first, *rest = whole[0].read_bytes().splitlines(keepends=True)
    head = json.loads(first)
    change(head)
    path = tmp_path / "a.journal.jsonl"
    path.write_bytes(b"".join([json.dumps(head).encode(), b"\n", *rest]))
    assert says in cli.wrong(["report", str(tmp_path), "--out", str(tmp_path / "r.html")])


# Reports -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a journal of another machine, with another seed, killed before its end."""
    path = tmp_path_factory.mktemp("other") / "b.journal.jsonl"
    go_on(path, plan=replace(PLAN, seed=1))
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))
    return path


def test_two_folders_merge_to_all_that_each_found(whole: Whole, other: Path) -> None:
    runs = [only(whole[0]), only(other)]
    one, two = (run.outcome() for run in runs)
    both, plan, points = merged(runs)
    ids = [{finding.id for finding in outcome.findings} for outcome in (one, two, both)]
    assert ids[2] == ids[0] | ids[1] and both.examples == one.examples + two.examples
    assert both.coverage.commands == one.coverage.commands + two.coverage.commands
    assert both.interrupted and plan.configs == SOME and points == [one.points, two.points]
    assert both.planned == {"p1": 40, "p4-draft": 40}
    one_config = replace(runs[1].head, configs={"p1": CONFIGS["p1"]})
    assert merged([runs[0], Run(one_config)])[1].array is None
    with pytest.raises(BadJournal, match="two journals have the seed 0"):
        merged([runs[0], runs[0]])
    with pytest.raises(BadJournal, match="subject differs"):
        merged([runs[0], Run(replace(runs[1].head, subject=replace(SUBJECT, spec="x")))])


def test_a_report_has_new_causes_first_and_known_ones(
    whole: Whole, other: Path, tmp_path: Path, cli: Any
) -> None:
    out = tmp_path / "r.html"
    folders = [whole[0].parent, other.parent]
    code, said = cli.ran("report", *folders, "--out", out)
    assert code == 1 and Path(said["page"]) == out and said["interrupted"]
    assert said["seeds"] == [0, 1]
    text = out.read_text()
    assert text.count("<polyline") == 4 and "<script" not in text and "default-src 'none'" in text
    assert "1 of 2 searches unfinished" in text and "seeds 0, 1" in text
    traces = [finding["trace"] for cause in said["causes"] for finding in cause["findings"]]
    assert traces and all(Path(trace).parent == tmp_path / "r-traces" for trace in traces)
    first = said["causes"][0]["findings"][0]["id"]
    group = {"name": "noise", "engine": "reference *", "reason": "why", "seen_as": [first]}
    known = {"slotproof_baseline": 2, "groups": [{**group, "traces": []}]}
    (tmp_path / "known.json").write_text(json.dumps(known))
    _, again = cli.ran("report", *folders, "--out", out, "--baseline", tmp_path / "known.json")
    assert again["causes"][-1] == said["causes"][0] and "noise: why" in out.read_text()


def test_an_estimate_of_what_is_left(whole: Whole) -> None:
    outcome = whole[1]
    once = sum(count == 1 for count in outcome.shown.values())
    said = " ".join(left(outcome, [outcome.points]))
    assert f"{len(outcome.shown)} identities were seen, {once} of them only once" in said
    nothing = Outcome("x", "reference")
    assert "nothing can be estimated" in " ".join(left(nothing, []))
    nothing.run["p1"] = 3000
    assert "under 1 in 1,000 has a finding (95 % sure)" in " ".join(left(nothing, []))


@pytest.mark.slow
def test_the_command_goes_on_after_a_kill_and_removes_what_is_no_finding(
    tmp_path: Path, cli: Any
) -> None:
    argv = ["--engine", f"reference:{BOTH}", "--config", "p1", "--examples", 20, "--all"]
    cli.ran("run", *argv, "--out", tmp_path)
    (path,) = tmp_path.glob("*.journal.jsonl")
    traces = {file: file.read_bytes() for file in tmp_path.glob("*.itf.json")}
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    stem = path.name.removesuffix(".journal.jsonl")
    (tmp_path / f"{stem}-INV-X.itf.json").write_bytes(next(iter(traces.values())))
    for name in ("INV-Y", "2"):  # of another build, and of a run without --all
        stays = tmp_path / f"{stem}-{name}.itf.json"
        stays.write_bytes((TRACES / "sglang-0.5.23-abort-waits.itf.json").read_bytes())
        traces[stays] = stays.read_bytes()
    cli.ran("run", *argv, "--out", tmp_path)
    assert path.read_bytes().count(b'"kind":"head"') == 1, "it went on"
    assert {file: file.read_bytes() for file in tmp_path.glob("*.itf.json")} == traces


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["run", "--all", "--jobs", "0"], "--jobs must be at least 1, not 0"),
        (["report", "nowhere"], "nowhere: No such file or directory; report takes a folder"),
        (["report", "."], "has no journal: `slotproof run --all --out .` writes it"),
        (["run", "--ray", "local"], "--jobs and --ray need --all"),
        (["run", "--all", "--out", "/dev/null/x"], "--out"),
    ],
)
def test_wrong_usage(argv: list[str], says: str, workdir: Path, cli: Any) -> None:
    assert says in cli.wrong(argv)
    assert list(workdir.iterdir()) == []


def test_a_line_now_and_then_in_a_pipe(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "EVERY", 0.0)
    with telling.progress_bar(True) as tell:
        tell("p1", 3, 10)
        tell("p1", 4, 4)
    assert capfd.readouterr().err.splitlines() == [
        "slotproof: 0 s: p1, 3 of 10",
        "slotproof: 0 s: p1, 4",
    ]
