"""Campaigns: the same for any number of workers and however often stopped; journals that merge."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slotproof.campaigns import merging, page, rounds, running, sure
from slotproof.campaigns.journal import NAME, BadJournal, Journal, canonical, load
from slotproof.campaigns.lines import Head
from slotproof.campaigns.running import Ended, Limits
from slotproof.campaigns.state import CampaignState, Place
from slotproof.cli import progress_line as telling
from slotproof.engines.reference import InProcessEngine
from slotproof.engines.registry import EngineSpec
from slotproof.lockstep.coverage import Coverage
from slotproof.protocol.config import CONFIGS
from slotproof.search.findings import Finding
from slotproof.search.guided import Explored
from slotproof.search.workers import Here, Processes, Workers

Campaign = tuple[Path, CampaignState]
NOISE, LEAK = "22213-double-count", "22862-no-free-tail"
BOTH = f"{NOISE}+{LEAK}"
EXAMPLES = 40
ROOT = Path(__file__).parents[3]


def head(mutant: str = BOTH, seed: int = 0, **changed: Any) -> Head:
    under_test = InProcessEngine(mutant)
    configs = {name: CONFIGS[name] for name in ("p1", "p4-draft")}
    made = Head(
        f"{under_test.name} {under_test.version}",
        f"reference:{mutant}",
        "",
        under_test.capabilities.profile,
        under_test.capabilities.to_json(),
        configs,
        seed,
        "0",
        "a",
        steps=20,
        shrink=60,
        set_aside=(),
        chosen_profile=None,
        known="",
        examples_of_task=8,
        tasks_of_round=1,
    )
    return replace(made, **changed)


class Nobody:
    """Watches nothing."""

    def moved(self, state: CampaignState, running: int) -> None: ...
    def found(self, findings: list[Finding]) -> None: ...
    def rounded(self, state: CampaignState) -> None: ...


def go_on(
    folder: Path, of: Head, examples: int = EXAMPLES, workers: Workers | None = None
) -> tuple[Ended, CampaignState]:
    journal = Journal(folder, of)
    try:
        mutant = of.spec.removeprefix("reference:")
        here = workers or Here(InProcessEngine(mutant))
        ended = running.run(journal, here, Limits(examples), Nobody())
    finally:
        journal.close()
    return ended, journal.state


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """A campaign that nobody stopped."""
    folder = tmp_path_factory.mktemp("campaign")
    ended, state = go_on(folder, head())
    assert ended == Ended()
    return folder, state


def ids(state: CampaignState) -> list[str]:
    return [each.id for each in state.findings.all()]


# The same campaign -------------------------------------------------------------------------------


def test_it_runs_what_was_asked_for_and_finds(whole: Campaign) -> None:
    _, state = whole
    assert state.examples == EXAMPLES and state.round is None and state.rounds == 5
    assert state.places["p1"].examples == 23 and state.places["p4-draft"].examples == 17
    assert "INV-SUM-FULL.reported@T-RESTORE" in ids(state) and len(ids(state)) >= 2
    assert state.shown and state.features > 50 and state.places["p1"].corpus
    assert [each.examples for each in state.points] == [2, 6, 14, 30, 40]


def test_the_journal_alone_tells_all(whole: Campaign) -> None:
    folder, state = whole
    again = load(folder)
    assert again.places == state.places and again.findings == state.findings
    assert again.points == state.points and again.shown == state.shown and again.seconds > 0


@pytest.mark.slow
def test_jobs_change_nothing(whole: Campaign, tmp_path: Path) -> None:
    workers = Processes(EngineSpec(f"reference:{BOTH}", step_timeout=600), 2)
    try:
        go_on(tmp_path, head(), workers=workers)
    finally:
        workers.close()
    assert canonical(tmp_path) == canonical(whole[0])


CUTS = 6


@pytest.mark.slow
@pytest.mark.parametrize("number", range(CUTS))
def test_a_journal_that_was_cut_anywhere_becomes_the_same(
    number: int, whole: Campaign, tmp_path: Path
) -> None:
    """As a kill leaves it: what was written up to some byte, the last line torn."""
    data = (whole[0] / NAME).read_bytes()
    cut = random.Random(number).randrange(len(data))
    (tmp_path / NAME).write_bytes(data[:cut])
    _, state = go_on(tmp_path, head())
    assert canonical(tmp_path) == canonical(whole[0])
    assert state.findings == whole[1].findings and state.places == whole[1].places


class Dying(Here):
    """Workers that end, each time after so many results, as if the process had been killed."""

    def __init__(self, mutant: str, draw: random.Random) -> None:
        super().__init__(InProcessEngine(mutant))
        self.draw, self.deaths = draw, 0

    def map(self, tasks: Any, event: Any, stop: Any, done: Any = None) -> Any:
        left = self.draw.randrange(3)
        order = list(range(len(tasks)))
        self.draw.shuffle(order)  # as many workers end
        for index in order:
            if not left:
                self.deaths += 1
                raise Killed
            left -= 1
            result = tasks[index].run(self.engine, lambda what: event(0, what), stop)
            done(index, result)
        return []


class Killed(BaseException):
    """Nothing is done after it."""


@pytest.mark.slow
def test_killed_again_and_again_in_any_order_it_becomes_the_same(
    whole: Campaign, tmp_path: Path
) -> None:
    workers = Dying(BOTH, random.Random(1))
    for _ in range(60):
        try:
            go_on(tmp_path, head(), workers=workers)
        except Killed:
            continue
        break
    assert workers.deaths >= 3
    assert canonical(tmp_path) == canonical(whole[0])


@pytest.mark.slow
def test_more_examples_go_on_from_there(whole: Campaign, tmp_path: Path) -> None:
    shutil.copytree(whole[0], tmp_path, dirs_exist_ok=True)
    before = (tmp_path / NAME).read_bytes()
    ended, state = go_on(tmp_path, head())
    assert state.examples == EXAMPLES and ended == Ended(), "nothing is left to do"
    _, state = go_on(tmp_path, head(), EXAMPLES + 10)
    assert state.examples == EXAMPLES + 10 and (tmp_path / NAME).read_bytes().startswith(before)
    assert {*ids(state)} >= {*ids(whole[1])}


class Stopped(Here):
    """The time is over in the middle of the first task; what comes after the first round is not
    looked at."""

    calls = 0

    def map(self, tasks: Any, event: Any, stop: Any, done: Any = None) -> Any:
        self.calls += 1
        if self.calls > 2:
            raise Killed
        left = [400 if self.calls == 1 else 1_000_000]

        def soon() -> bool:
            left[0] -= 1
            return left[0] < 0

        for number, task in enumerate(tasks):
            done(number, task.run(self.engine, lambda what: event(0, what), soon))
        return []


@pytest.mark.slow
def test_what_a_task_found_that_was_cut_short_is_kept_and_made_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time was the plan: the round is what was done of it."""
    monkeypatch.setattr(rounds, "share", lambda _, most: most)
    of = head(NOISE, configs={"p1": CONFIGS["p1"]}, examples_of_task=400, shrink=400)
    journal = Journal(tmp_path, of)
    with pytest.raises(Killed):
        running.run(journal, Stopped(InProcessEngine(NOISE)), Limits(), Nobody())
    journal.close()
    state = load(tmp_path)
    assert state.rounds == 1 and state.examples == 0, "no task was done"
    (found,) = state.findings.all()
    assert found.id == "INV-SUM-FULL.reported@T-RESTORE" and found.trace.minimal


# Journals of something else ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"engine": "reference 2"}, "engine was reference 1 with "),
        ({"seed": 1}, "--seed was 0, and is 1 now"),
        ({"slotproof": "9"}, "slotproof was 0 (sources a), and is 9 (sources a) now"),
        ({"sources": "b"}, "slotproof was 0 (sources a), and is 0 (sources b) now"),
        ({"steps": 21}, "steps was 20, and is 21 now"),
        ({"configs": {"p1": CONFIGS["p1"]}}, "--config was p1, p4-draft, and is p1 now"),
        ({"offers": {}}, "what the engine offers is another one"),
        ({"examples_of_task": 9}, "--task was 8, and is 9 now"),
    ],
)
def test_another_campaign_does_not_go_on(
    changed: dict[str, Any], says: str, whole: Campaign, tmp_path: Path
) -> None:
    shutil.copytree(whole[0], tmp_path, dirs_exist_ok=True)
    before = (tmp_path / NAME).read_bytes()
    with pytest.raises(BadJournal, match=re.escape(says)):
        Journal(tmp_path, head(**changed))
    assert (tmp_path / NAME).read_bytes() == before


def test_one_process_writes(whole: Campaign, tmp_path: Path) -> None:
    journal = Journal(tmp_path, head())
    try:
        with pytest.raises(BadJournal, match="another campaign writes to this journal"):
            Journal(tmp_path, head())
    finally:
        journal.close()
    Journal(tmp_path, head()).close()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{}\n", "line 3: "),
        (b'{"kind":"round","round":9,"tasks":[],"at":0}\n', "line 3: round 9 comes after 0 rounds"),
        (b'{"kind":"closed","round":7,"at":0}\n', "line 3: round 7 is not the one"),
        (b'{"kind":"judged","known":{"a":1},"at":0}\n', "line 3: "),
        (b'{"kind":"begun","at":0,"workers":1,"part":3}\n', "line 3: "),
    ],
)
def test_nonsense_is_one_line(line: bytes, says: str, whole: Any, tmp_path: Path) -> None:
    first, second = (whole[0] / NAME).read_bytes().splitlines(keepends=True)[:2]
    (tmp_path / NAME).write_bytes(first + second + line + second)
    with pytest.raises(BadJournal, match=re.escape(says)) as raised:
        load(tmp_path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda head: head.update(profile="\x1b]0;a\x07"), "unknown profile"),
        (lambda head: head.update(chosen_profile="no-such"), "unknown profile"),
        (lambda head: head["offers"].update(not_observed=[]), "offers/not_observed: "),
        (lambda head: head["offers"].update(transitions=["T-NONE"]), "no transition 'T-NONE'"),
    ],
)
def test_a_head_that_no_campaign_has_is_one_line(
    change: Callable[[Any], None], says: str, whole: Any, tmp_path: Path
) -> None:
    first, *rest = (whole[0] / NAME).read_bytes().splitlines(keepends=True)
    head = json.loads(first)
    change(head)
    (tmp_path / NAME).write_bytes(b"".join([json.dumps(head).encode(), b"\n", *rest]))
    with pytest.raises(BadJournal, match=f"line 1: .*{re.escape(says)}"):
        load(tmp_path)


@pytest.mark.slow
def test_a_full_disk_leaves_a_whole_journal(
    whole: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path, head())
    write, left = os.write, [2_000]

    def full(number: int, data: Any) -> int:
        if left[0] <= 0:
            raise OSError(28, "No space left on device")
        count = write(number, bytes(data)[: left[0]])
        left[0] -= count
        return count

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(BadJournal, match="No space left on device; what is in it is whole"):
        running.run(journal, Here(InProcessEngine(BOTH)), Limits(EXAMPLES), Nobody())
    journal.close()
    monkeypatch.undo()
    assert (tmp_path / NAME).read_bytes().endswith(b"\n")
    go_on(tmp_path, head())
    assert canonical(tmp_path) == canonical(whole[0])


# Merging -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """Of another machine, with another seed; stopped in the middle of a round."""
    folder = tmp_path_factory.mktemp("other")
    go_on(folder, head(seed=1), 24)
    lines = (folder / NAME).read_bytes().splitlines(keepends=True)
    last = max(n for n, line in enumerate(lines) if b'"kind":"task"' in line)
    (folder / NAME).write_bytes(b"".join(lines[: last + 1]))
    return folder, load(folder)


def test_journals_of_two_machines_merge(whole: Campaign, other: Campaign, tmp_path: Path) -> None:
    merging.merge([whole[0], other[0]], tmp_path / "c").close()
    state = load(tmp_path / "c")
    assert state.examples == whole[1].done + other[1].done
    assert {*ids(state)} >= {*ids(whole[1])}
    assert {each.clause for each in map(mark, state.findings.all())} >= {
        each.clause for each in map(mark, other[1].findings.all())
    }
    for name, place in state.places.items():
        both = whole[1].places[name].seen | other[1].places[name].seen
        assert place.seen >= both
    assert state.coverage.commands >= whole[1].coverage.commands
    merging.merge([other[0], whole[0]], tmp_path / "d").close()
    assert load(tmp_path / "d").head.seed == state.head.seed not in (0, 1)


def mark(finding: Finding) -> Any:
    return finding.mark


@pytest.mark.slow
def test_a_merged_campaign_goes_on(whole: Campaign, other: Campaign, tmp_path: Path) -> None:
    merging.merge([whole[0], other[0]], tmp_path).close()
    before = load(tmp_path)
    of = replace(head(), seed=before.head.seed)
    ended, state = go_on(tmp_path, of, before.examples + 16)
    assert ended == Ended() and state.examples == before.examples + 16 and not state.left
    assert {*ids(state)} >= {*ids(whole[1])}
    again = load(tmp_path)
    assert again.places == state.places and again.findings == state.findings


def test_who_does_not_go_together(whole: Campaign, other: Campaign, tmp_path: Path) -> None:
    with pytest.raises(BadJournal, match="two of them have the seed 0"):
        merging.merge([whole[0], whole[0]], tmp_path / "a")
    journal = Journal(tmp_path / "b", head(NOISE, seed=5))
    journal.close()
    with pytest.raises(BadJournal, match=r"does not go with .*: engine was "):
        merging.merge([whole[0], tmp_path / "b"], tmp_path / "c")
    merging.merge([whole[0], other[0]], tmp_path / "d").close()
    with pytest.raises(BadJournal, match="is there already"):
        merging.merge([whole[0], other[0]], tmp_path / "d")
    with pytest.raises(BadJournal, match="was merged itself"):
        merging.merge([tmp_path / "d", tmp_path / "b"], tmp_path / "e")
    assert not (tmp_path / "e").exists()


def test_merging_by_command(whole: Campaign, other: Campaign, tmp_path: Path, cli: Any) -> None:
    both = ["--merge", whole[0], "--merge", other[0], "--journal", tmp_path / "both"]
    code, said = cli.ran("campaign", *both)
    assert code == 1 and said["examples"] == whole[1].done + other[1].done
    assert "is there already" in cli.wrong(["campaign", *map(str, both)])
    text = (tmp_path / "both" / "status.html").read_text()
    assert "merged of seeds 0, 1" in text


def test_what_is_rare_in_two_is_counted_together() -> None:
    def place(reached: dict[str, int]) -> Place:
        made = Place()
        made.add(Explored(examples=20, coverage=Coverage(), reached=Counter(reached), whole=True))
        return made

    one, two = place({"a": 1, "b": 6, "c": 12}), place({"a": 1, "b": 6, "c": 1, "d": 1})
    assert one.common == {"c"} and one.rare == {"a": 1, "b": 6}
    one.join(two)
    assert one.rare == {"a": 2, "d": 1} and one.common == {"b", "c"} and one.examples == 40


# How sure ----------------------------------------------------------------------------------------


def test_the_estimate_is_of_what_one_example_reached(whole: Campaign) -> None:
    said = sure.how_sure(whole[1])
    rare = [count for place in whole[1].places.values() for count in place.rare.values()]
    assert said["features"]["next_example"] == rare.count(1) / EXAMPLES > 0
    assert said["identities"]["seen"] == len(whole[1].shown) and not said["identities"]["at_most"]
    text = " ".join(sure.sentences(said))
    assert "to come: about" in text and "97.2 %" in text and "this is less" in text


def test_nothing_found_is_bounded_by_three_in_n(tmp_path: Path) -> None:
    state = CampaignState(head())
    state.places["p1"].examples = 3000
    said = sure.how_sure(state)
    assert said["identities"]["at_most"] == 0.001
    assert "fewer than one of 1000 like these" in " ".join(sure.sentences(said))


def test_the_yardstick_is_what_was_counted() -> None:
    """CONTRIBUTING tells how."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert f"{sure.KILLED} of {sure.OF} mutants ({100 * sure.KILLED / sure.OF:.1f} %)" in text


# What is left to look at -------------------------------------------------------------------------


def test_the_page_needs_nothing_and_runs_nothing(whole: Campaign) -> None:
    text = page.render(whole[1], ended="Over", where=lambda each: f"/x/{each.mark.slug}<b>.json")
    assert text.count("<svg") == 3 and "<script" not in text
    assert "http" not in text.replace("http-equiv", "")
    assert "default-src 'none'" in text
    assert all(each in text for each in ids(whole[1]))
    assert "&lt;b&gt;.json" in text and "<b>.json" not in text
    empty = page.render(CampaignState(head()))
    assert "None so far. Nothing found is not a proof." in empty and "<svg" not in empty


def test_the_page_tells_new_findings_from_known_ones(
    whole: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end compares them with a baseline; until then nobody knows."""
    state = whole[1]
    known = dict.fromkeys(ids(state), "its group: why")
    monkeypatch.setattr(state, "judged", known)
    text = page.render(state, ended="Over")
    assert "<dt>new findings</dt><dd>0</dd>" in text and "None so far." in text
    assert f"<dt>in the baseline</dt><dd>{len(known)}</dd>" in text and "its group: why" in text
    monkeypatch.setattr(state, "judged", {})
    monkeypatch.setattr(state, "head", replace(state.head, known="a baseline"))
    assert "<h2>New findings</h2>" in page.render(state, ended="Over")
    assert "<h2>Findings, not compared with the baseline yet</h2>" in page.render(state)


# Rounds ------------------------------------------------------------------------------------------


def test_rounds_are_dealt_by_plan_and_what_is_left() -> None:
    of = head(tasks_of_round=2, examples_of_task=12)
    assert rounds.deal(of, 0, None) == [("p1", 1), ("p4-draft", 1)] * 2
    assert rounds.deal(of, 3, None) == [("p1", 8), ("p4-draft", 8)] * 2
    assert rounds.deal(of, 99, None) == [("p1", 12), ("p4-draft", 12)] * 2
    assert rounds.deal(of, 3, 20) == [("p1", 8), ("p4-draft", 8), ("p1", 4)]
    assert rounds.deal(of, 3, 0) == []


# The command -------------------------------------------------------------------------------------


def test_a_line_now_and_then_in_a_pipe(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "EVERY", 0.0)
    with telling.progress_bar(True) as tell:
        tell("p1", 3, 10)
        tell("p1", 4, 4)
    with telling.campaign_view(True, 10) as show:
        show(CampaignState(head()), 3)
    said = capfd.readouterr().err.splitlines()
    assert said == [
        "slotproof: 0 s: p1, 3 of 10",
        "slotproof: 0 s: p1, 4",
        "slotproof: 0 s: 3 of 10 examples, 0 features, 0 findings",
    ]
