"""From a log to an answer: its page, read from files or a pipe, and all its violations."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from slotproof.cli.app import status
from slotproof.logs import judging, report
from slotproof.reports import forms
from slotproof.reports.trace import load_trace
from slotproof.support import bounds
from slotproof.traces import itf
from tests.recordings import Recording, files_of, give, lines_of, write

Line = dict[str, Any]
FORMS = [name for name in forms.FORMS if name not in ("pytest", "issue", "script")]


def recorded(folder: Path, every: int = 1, files: int = 2) -> list[Path]:
    """Return the files of a recording: one file by default, about 5 with a limit of 90."""
    path = folder / "log.jsonl"
    Recording(path, 1 << 20, files, every).turns(24)
    return files_of(path)


def one(folder: Path, every: int = 1) -> tuple[Path, list[Line]]:
    """Return a recording in one file, and its lines."""
    (file,) = recorded(folder, every)
    return file, lines_of(file)


def states(lines: list[Line]) -> list[int]:
    """Return the positions of lines with the state after an iteration."""
    return [n for n, line in enumerate(lines) if "pools" in line.get("snapshot", {})][1:]


def leak(lines: list[Line], start: int) -> None:
    """Remove a page from the pool in every state from ``start`` on."""
    for line in lines[start:]:
        if "pools" in line.get("snapshot", {}):
            pool = line["snapshot"]["pools"]["full"]
            pool["available"] -= 4
            pool["free"].pop()


@pytest.fixture
def shown(cli: Any) -> Callable[..., str]:
    """Output of ``slotproof show``."""
    return lambda path, form="html": cli(["show", str(path), "--format", form])


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("form", FORMS)
def test_the_same_page_however_it_is_read(
    form: str, every: int, tmp_path: Path, shown: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Complete, cut off, and on standard input."""
    files = recorded(tmp_path, every, 90)
    assert len(files) > 3
    for file, start in ((files[-2], 12), (files[-1], 0)):
        lines = lines_of(file)
        leak(lines, start)
        write(file, lines)
    whole = b"".join(file.read_bytes() for file in files)
    ends = [n + 1 for n, byte in enumerate(whole) if byte == 10]
    one, torn = tmp_path / "one.jsonl", tmp_path / "torn.jsonl"
    for last in (ends[-1], ends[-8]):  # the whole log, and some lines after the violation
        one.write_bytes(whole[:last])
        page = shown(one, form)
        assert "INV-SUM-FULL" in page and str(tmp_path) not in page
        torn.write_bytes(whole[: last + 40] if last < len(whole) else whole[:last] + b'{"comm')
        assert judging.validate(torn).cut
        assert shown(torn, form) == page
        for path in (one, torn):
            give(monkeypatch, path.read_bytes())
            assert shown("-", form) == page


@pytest.mark.parametrize("every", [1, 3])
def test_a_trace_of_a_log_is_shown_as_the_log_is(
    every: int, tmp_path: Path, shown: Any, cli: Any
) -> None:
    """``validate --out``. Such a trace can't be replayed."""
    file, lines = one(tmp_path, every)
    leak(lines, states(lines)[-3])
    write(file, lines)
    out = tmp_path / "x.itf.json"
    assert f"trace: {out}" in cli(["validate", str(file), "--out", str(out)], 1)
    for form in FORMS:
        assert shown(out, form) == shown(file, form)
    assert load_trace(out, to_run=False).rows[-1].frames
    for argv in (
        ["replay", str(out), "--engine", "reference"],
        ["replay", str(out), "--engine", "reference", "--against", str(out)],
        ["show", str(out), "--format", "pytest"],
        ["show", str(file), "--format", "pytest"],
    ):
        assert "log" in cli.wrong(argv)


def test_what_the_page_says_of_a_line_without_a_state(tmp_path: Path, shown: Any) -> None:
    """A line without recorded figures shows no sum and no agreement with the spec."""
    file, lines = one(tmp_path, 3)
    blind = [n for n, line in enumerate(lines) if line.get("snapshot", {}).get("events")]
    at = next(
        n
        for n, after in pairwise(blind[10:])
        if not any("pools" in lines[number]["snapshot"] for number in (n, after))
    )
    lines[at]["snapshot"]["events"].append(["T-CLOSE", "nobody", None, {"u": 0, "swa_u": 0}])
    write(file, lines)
    verdict = judging.validate(file)
    assert verdict.line == at + 1
    trace = report.trace_of(verdict, judging.judged([file]).shown)
    last = trace.rows[-1].frames[-1]
    assert last.carried and not last.pages and not last.check and last.pools
    assert [event["transition"] for event in last.events][-1] == "T-CLOSE"
    page = shown(file)
    bad = page.split('class="panel bad"')[1].split("</article>")[0]
    assert "The log has no state for this iteration" in bad
    assert "Every length and figure" not in bad and "agree in every length" not in bad
    assert "iterations skipped up to the next state" in page.split("Not judged")[1]
    assert "<td" not in page.split("<small>the log has no state")[1].split("</tbody>")[0].replace(
        '<td colspan="6">', ""
    )


def test_all_that_is_wrong_each_kind_once(tmp_path: Path, cli: Any) -> None:
    """A state that stays broken is reported once, whatever happens next. Another forbidden
    transition is another kind, and is reported separately."""
    file, lines = one(tmp_path)
    shows = states(lines)
    first, second, third, fourth = shows[10], shows[30], shows[50], shows[70]
    leak(lines, first)
    for at, name in ((second, "T-CLOSE"), (third, "T-CLOSE"), (fourth, "T-REAP")):
        lines[at]["snapshot"]["events"].append([name, "nobody", None, {"u": 0, "swa_u": 0}])
    write(file, lines)
    verdict = judging.validate(file)
    assert verdict.line == first + 1
    assert {"INV-SUM-FULL.equation", "INV-OWNER.lost"} <= {
        violation.clause for violation in verdict.violations
    }
    later = {
        (finding.violation.clause, finding.violation.transition): finding
        for finding in verdict.later
    }
    assert not {"INV-SUM-FULL.equation", "INV-OWNER.lost"} & {clause for clause, _ in later}
    assert len(later) == len(verdict.later), "no kind twice"
    close, reap = (later["INV-STEP.unknown", name] for name in ("T-CLOSE", "T-REAP"))
    assert (close.line, close.times) == (second + 1, 2)
    assert (reap.line, reap.times) == (fourth + 1, 1)
    since = [n for n in shows if n >= first]
    assert verdict.times["INV-SUM-FULL.equation"] == len(since)
    assert verdict.kinds["INV-SUM-FULL.equation"].times == len(since)
    out = cli(["validate", str(file)], 1)
    assert f":{second + 1}: INV-STEP.unknown at T-CLOSE" in out and "× 2" in out
    assert out.rstrip().endswith(
        f"counterexample: line {first + 1} of {file}: {verdict.violations[0].clause}"
    )
    document = report.summary(verdict)
    assert [finding["line"] for finding in document["later"]] == [
        finding.line for finding in verdict.later
    ]
    text = cli(["show", str(file)])
    assert "the finding above may have caused them" in text
    assert f"line {second + 1}: INV-STEP.unknown at T-CLOSE" in text


def test_a_log_that_breaks_after_a_violation(tmp_path: Path) -> None:
    """The finding is not lost. The rest is not judged, and the report gives the reason."""
    file, lines = one(tmp_path)
    at = states(lines)[20]
    leak(lines, at)
    write(file, lines)
    data = file.read_bytes()
    file.write_bytes(data + b"{broken\n" + data)
    verdict = judging.validate(file)
    assert verdict.line == at + 1 and report.status(verdict) == 1
    why = report.not_observed(verdict)["the rest of the log"]
    assert why.startswith(f"line {len(lines) + 1}: not JSON")


def test_a_log_in_which_all_is_well(tmp_path: Path, shown: Any) -> None:
    """The page shows the last lines, and no trace is written."""
    (path,), out = recorded(tmp_path), tmp_path / "x.itf.json"
    assert status(["validate", str(path), "--out", str(out)]) == 0 and not out.exists()
    page = shown(path)
    assert "No clause of the spec was violated in the" in page and "up to line" in page
    assert "Run it again" not in page


def test_a_server_of_the_usual_size(tmp_path: Path, shown: Any) -> None:
    """The pool and the rows exceed the limits for running a trace, so no engine is built."""
    file, lines = one(tmp_path)
    config = lines[0]["config"]
    more = 2_000_000 - config["total_tokens"]
    config |= {"total_tokens": 2_000_000, "context_len": 131_072, "rows": 4_096}
    for line in lines:
        snapshot = line.get("snapshot", {})
        for name in ("tree", "checker"):
            snapshot.pop(name, None)
        if "pools" in snapshot:
            pool = snapshot["pools"]["full"]
            pool.update(total=pool["total"] + more, available=pool["available"] + more)
            del pool["free"], snapshot["rows"]["used"]
            snapshot["rows"].pop("width", None)
            gone = config["rows"] - snapshot["rows"]["total"]
            snapshot["rows"].update(total=config["rows"])
            snapshot["rows"]["free"] += [4_000 - n for n in range(gone)]
    at = states(lines)[-4]
    lines[at]["snapshot"]["pools"]["full"]["available"] -= 4
    write(file, lines)
    out = tmp_path / "x.itf.json"
    assert status(["validate", str(file), "--out", str(out)]) == 1
    assert shown(out) == shown(file)
    assert "the log does not have the pages of the free list, the tree and the rows" in shown(out)


def test_the_end_is_as_long_as_it_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace over the size limit loses its first rows, not its figures. Rows with many actors are
    dropped in the same way."""
    file, lines = one(tmp_path)
    leak(lines, states(lines)[-4])
    write(file, lines)
    verdict = judging.validate(file)
    assert verdict.found is not None
    trace = report.trace_of(verdict, verdict.found)
    assert len(trace.rows) == judging.CONTEXT
    out = tmp_path / "x.itf.json"
    monkeypatch.setattr(bounds, "TRACE_BYTES", 20_000)
    itf.save(trace, out)
    less = load_trace(out, to_run=False)
    assert 1 < len(less.rows) < judging.CONTEXT and less.rows[-1].frames
    assert less.rows == trace.rows[-len(less.rows) :]
    assert trace.recorded is not None and less.recorded is not None
    gone = len(trace.rows) - len(less.rows)
    assert less.recorded.before == trace.recorded.before + gone
    monkeypatch.setattr(judging, "ACTORS", 10)
    finding = judging.validate(file).found
    assert finding is not None and len(finding.rows) < judging.CONTEXT
    assert finding.commands == verdict.found.commands


def test_tokens_of_clients_are_on_no_page(tmp_path: Path, shown: Any) -> None:
    """A recording may have tokens (SLOTPROOF_RECORD_TOKENS), but a page is made to be shared."""
    file, lines = one(tmp_path)
    secret = [54_321, 54_322, 54_323]
    last = max(n for n, line in enumerate(lines) if "submit" in str(line.get("command")))
    lines[last]["command"]["tokens"] = secret
    write(file, lines[: last + 3])
    for form in FORMS:
        page = shown(file, form)
        assert "3 " in page and "54321" not in page and "54322" not in page


def test_an_out_that_is_no_place(tmp_path: Path, cli: Any) -> None:
    """The log itself under any name, a folder, an impossible path. No file changes."""
    files = recorded(tmp_path, files=90)
    before = [file.read_bytes() for file in files]
    link = tmp_path / "link"
    link.symlink_to(files[-1])
    for argv in (["validate", *map(str, files)], ["show", str(files[-1])]):
        for out, text in (
            (files[-1], "is the log itself"),
            *[(files[0], "is the log itself")] * (argv[0] == "validate"),
            (link, "is the log itself"),
            (tmp_path, "is a folder"),
            (files[0] / "x", "can't be written to"),
        ):
            assert text in cli.wrong([*argv, "--out", str(out)])
    assert [file.read_bytes() for file in files] == before
    assert status(["validate", "-", str(files[0])]) == 2


def test_show_all_goes_on_past_a_bad_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Bad files get a line on standard error, good traces and a log get pages. Status 2."""
    good = Path(__file__).parents[1] / "snapshots" / "double-count.itf.json"
    odd = json.loads(good.read_text())
    for state in odd["states"]:
        for _, pool in state["pools"]["#map"]:
            pool.pop("total", None)
    (tmp_path / "odd.itf.json").write_text(json.dumps(odd))
    (tmp_path / "bad.itf.json").write_text("{")
    log = recorded(tmp_path)[0].rename(tmp_path / "log.jsonl")
    names = ("bad.itf.json", "odd.itf.json", "none.itf.json")
    bad = [str(tmp_path / name) for name in names]
    out = tmp_path / "out"
    argv = ["show", bad[0], str(good), bad[1], str(log), bad[2], "--all", "--out", str(out)]
    assert status(argv) == 2
    said, err = capfd.readouterr()
    assert err.count("\n") == 3 and all(name in err for name in names)
    assert "2 traces" in said
    made = {path.name for path in out.iterdir()}
    assert {"double-count.html", "test_double_count.py", "log.jsonl.html", "index.html"} <= made
    assert not [name for name in made if "odd" in name or name == "test_log_jsonl.py"]
    assert status(["show", *bad, "--all", "--out", str(tmp_path / "none")]) == 2
    assert not (tmp_path / "none").exists()
    assert status(["show", str(good), "--all", "--out", str(out)]) == 0
