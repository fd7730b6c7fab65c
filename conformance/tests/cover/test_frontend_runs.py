"""A run on a front end, with a stand-in for the program that starts one."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from slotproof.cli import app, frontend as fronting
from slotproof.engines.base import EngineFailed, EngineUnusable
from slotproof.frontend import running
from slotproof.frontend.program import Build
from slotproof.frontend.scripts import Action, Script
from slotproof.protocol import family

HEADER = {
    "slotproof-log": 3,
    "engine": {"name": "mine", "version": "0"},
    "profile": "reference",
    "config": {},
}
ITERATION = {"snapshot": {"iter": 1, "events": []}}
WRONG = {"events": [["T-RESTORE", "s1", "r1", {}]]}
"""Of an iteration: a turn that nobody has sent has no slot."""


class FrontEnd:
    """Answers every turn at once, with ones."""

    version = "1"
    fault = ""
    every = 1
    """The round in which the fault shows, and each so-manieth after it."""
    played = 0
    started = 0
    ended = 0
    heard: list[Script] = []  # noqa: RUF012  # what all of them were told

    def __init__(self, build: Build, config: dict[str, Any], folder: Path) -> None:
        if self.fault == "start":
            raise EngineUnusable("its front end does not start: because")
        type(self).started += 1
        self.log = folder / "log.jsonl"
        self.file = folder / "log.jsonl.000001"
        self.file.write_text(json.dumps(HEADER) + "\n" + json.dumps(ITERATION) + "\n")
        self.faulty = False

    def play(self, scripts: list[Script]) -> list[dict[str, Any]]:
        type(self).played += 1
        type(self).heard = [*self.heard, *scripts]
        self.faulty = self.played % self.every == 0
        if self.faulty and self.fault == "interrupt":
            raise KeyboardInterrupt
        if self.faulty and self.fault == "death":
            raise EngineFailed("crash", "the driver was ended by SIGKILL", "some\nlast words")
        if self.faulty and self.fault == "log":
            with self.file.open("a") as file:
                file.write(json.dumps({"snapshot": {"iter": self.played + 1, **WRONG}}) + "\n")
        return [
            note for number, script in enumerate(scripts) for note in self._life(number, script)
        ]

    def _life(self, client: int, script: Script) -> Any:
        history: dict[str, int] = {}
        for action in script:
            about = {"client": client, **{k: action[k] for k in ("session",) if k in action}}
            if action["do"] == "open":
                history[action["session"]] = 0
                yield {**about, "what": "opened", "said": action["session"]}
            elif action["do"] == "turn":
                yield from self._turn(about, action, history)

    def _turn(self, about: Any, action: Action, history: dict[str, int]) -> Any:
        sid, new = action.get("session"), action["max_new"]
        rid = action["rid"] + ("00" if action.get("insists") else "")
        prompt = history.get(sid or "", 0) + len(action["tokens"])
        yield {**about, "what": "sent", "rid": rid, "turn": action["rid"]}
        if "leaves" in action:
            yield {**about, "what": "left", "rid": rid}
            return
        prompt += self.faulty and self.fault == "history"
        figures = {"prompt_tokens": prompt, "completion_tokens": new, "cached_tokens": 0}
        said = {"reason": "length", "message": "", "tokens": [1] * new}
        yield {**about, "what": "final", "rid": rid, **said, **figures}
        if sid:
            history[sid] = prompt + new

    def alone(self, requests: list[Action]) -> dict[str, list[int]]:
        return {each["rid"]: [1] * each["max_new"] for each in requests}

    def end(self) -> None:
        type(self).ended += 1


@pytest.fixture
def front_end(monkeypatch: pytest.MonkeyPatch) -> type[FrontEnd]:
    class Mine(FrontEnd):
        pass

    monkeypatch.setattr(running, "Program", Mine)
    monkeypatch.setattr(running, "_SETTLED", 0.0)
    build = Build(Path("python"), Path("driver"), family.FrontEnd("front", {}))
    monkeypatch.setattr(fronting, "_build", lambda *_: build)
    return Mine


ARGV = ["frontend", "--clients", "2", "--config", "p1", "--times", "4", "--seconds", "3600"]


def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, Any]:
    argv = [*ARGV, "--rounds", "4", "--out", str(tmp_path / "out"), *more]
    status = app.status([*argv, "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_a_front_end_that_is_right(
    front_end: type[FrontEnd], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, told = run(tmp_path, capsys)
    assert status == told["status"] == 0 and told["found"] == []
    assert told["rounds"] == front_end.played == 4 and told["engines"] == 1
    assert told["requests"] >= told["heard"]["answered"] + told["heard"]["left"] > 0
    assert told["log"]["iterations"] == 1
    assert front_end.started == front_end.ended == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        ("history", "CLIENT-HISTORY"),
        ("death", "CLIENT-ALIVE"),
        ("log", "INV-STEP.unknown@T-RESTORE"),
    ],
)
def test_what_is_found_is_kept_and_played_again(
    fault: str,
    seen: str,
    front_end: type[FrontEnd],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The second round shows it, and every second replay; then engines go on to the end."""
    front_end.fault, front_end.every = fault, 2
    status, told = run(tmp_path, capsys)
    (found,) = told["found"]
    assert status == 1 and found["id"] == seen and found["round"] == 1
    assert found["replayed"] == {"times": 4, "seen": 2}
    assert front_end.started == front_end.ended > 2
    path = Path(found["file"])
    kept = json.loads(path.read_text())
    assert kept["replayed"] == found["replayed"] and kept["id"] == seen
    assert (path.parent / kept["log"]).is_dir()
    whole = app.status(["validate", found["log"]])
    assert whole == (1 if fault == "log" else 0)
    capsys.readouterr()
    names = {each["rid"] for script in front_end.heard for each in script if "rid" in each}
    turns = [each["rid"] for script in front_end.heard for each in script if each["do"] == "turn"]
    assert len(turns) == len({*turns}) <= len(names), "no request has another's name"
    front_end.every = 4
    assert app.status(["frontend", "--replay", str(path), "--times", "8"]) == 1
    assert f"{seen}: seen in 2 of 8 replays" in capsys.readouterr().out


def test_what_is_known_is_counted(
    front_end: type[FrontEnd], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    front_end.fault = "log"
    group = {"name": "known", "reason": "so", "seen_as": ["INV-STEP.unknown@T-RESTORE"]}
    baseline = tmp_path / "baseline.json"
    baseline.write_text(json.dumps({"slotproof_baseline": 2, "groups": [group]}))
    status, told = run(tmp_path, capsys, "--baseline", str(baseline))
    assert status == 0 and told["found"] == []
    assert told["known"] == {"INV-STEP.unknown@T-RESTORE": 1} and told["engines"] == 1


def test_replays_are_told_from_the_first(
    front_end: type[FrontEnd], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take longer than what is played: between two rounds, by number."""
    told: list[tuple[str, int, int]] = []
    bar = nullcontext(lambda *said: told.append(said))
    monkeypatch.setattr(fronting, "progress_bar", lambda _: bar)
    front_end.fault, front_end.every = "history", 2
    assert app.status([*ARGV, "--rounds", "3", "--out", str(tmp_path)]) == 1
    replays = [("1 found, replays", number, 4) for number in range(4)]
    assert told[:5] == [("rounds", 1, 0), *replays]
    assert told[-1] == ("1 found, rounds", 3, 0)


def test_an_interrupt_ends_it(
    front_end: type[FrontEnd], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    front_end.fault, front_end.every = "interrupt", 3
    assert app.status([*ARGV, "--out", str(tmp_path)]) == 3
    assert capsys.readouterr().out.endswith("inconclusive: interrupted\n")
    assert front_end.played == 3 and front_end.started == front_end.ended == 1


def test_a_build_without_a_front_end_is_one_line(
    front_end: type[FrontEnd], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    front_end.fault = "start"
    assert app.status([*ARGV, "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "slotproof: its front end does not start: because\n"
