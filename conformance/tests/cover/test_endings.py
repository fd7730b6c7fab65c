"""Exit status of commands, whatever happens to their output or their process.

Every command runs in a process of its own, so that Python's exit is tested too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slotproof.cli.app import status

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
TRACE = str(ROOT / "conformance" / "tests" / "snapshots" / "double-count.itf.json")
PROGRAM = [sys.executable, "-m", "slotproof.cli.app"]
FAITHLESS = """
from slotproof.search import campaign
from slotproof.engines.reference import InProcessEngine

def factory():
    campaign.possible = None
    return InProcessEngine()

def leaves():
    raise SystemExit(0)
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return an environment with an engine module that breaks slotproof. Its error looks like our
    bug."""
    (tmp_path / "faithless.py").write_text(FAITHLESS)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    return {**os.environ, "PYTHONPATH": path, "COLUMNS": "100"} | {"SLOTPROOF_DEBUG": ""}


CRASH = ["run", "--engine", "faithless:factory"]


def run(argv: list[str], environment: dict[str, str], **how: Any) -> tuple[int, str, str]:
    """Return status, output and errors. Streams that are not captured are empty."""
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how}
    done = subprocess.run(
        [*PROGRAM, *argv], env=environment, check=False, timeout=120, errors="replace", **how
    )
    return done.returncode, done.stdout or "", done.stderr or ""


def through(shell: str, argv: list[str], environment: dict[str, str]) -> tuple[int, str]:
    """Return the status and the errors of a command within a shell line, where it is ``"$@"``."""
    script = f'{{ {shell}; }}; exit "${{PIPESTATUS[0]}}"'
    done = subprocess.run(
        ["bash", "-c", script, "bash", *PROGRAM, *argv],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stderr


FULL, CLOSED, LEFT = '"$@" > /dev/full', '"$@" >&-', '"$@" | true'


def test_a_bug_of_ours_is_status_70_and_one_line(environment: dict[str, str]) -> None:
    code, out, err = run(CRASH, environment)
    assert (code, out, err.count("\n")) == (70, "", 1)
    assert "internal error at campaign.py:" in err and "TypeError" in err
    assert "SLOTPROOF_DEBUG=1" in err and "report it" in err


def test_the_traceback_is_there_for_who_asks(environment: dict[str, str]) -> None:
    for argv, more in ((["--debug", *CRASH], {}), (CRASH, {"SLOTPROOF_DEBUG": "1"})):
        code, _, err = run(argv, environment | more)
        assert code == 70
        assert err.startswith("Traceback (most recent call last):")
        assert err.splitlines()[-1].startswith("slotproof: internal error at campaign.py:")


@pytest.mark.parametrize("shell", [FULL, CLOSED, LEFT, '"$@" >&- 2>&- <&-', '"$@" 2>/dev/full'])
def test_a_bug_of_ours_wherever_its_output_goes(shell: str, environment: dict[str, str]) -> None:
    code, err = through(shell, CRASH, environment)
    assert code == 70
    assert "Exception ignored" not in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("argv", "without"), [(["replay", TRACE], 1), (["show", TRACE], 0), (["--help"], 0)]
)
def test_who_reads_does_not_change_the_verdict(
    argv: list[str], without: int, environment: dict[str, str]
) -> None:
    """With the reader gone or output closed, the status stays. On a full disk 1 stays 1, and 0 is
    2."""
    assert through(LEFT, argv, environment) == (without, "")
    assert through('"$@" | head -1 > /dev/null', argv, environment) == (without, "")
    assert through(CLOSED, argv, environment) == (without, "")
    code, err = through(FULL, argv, environment)
    assert code == (without or 2)
    assert err == "slotproof: standard output can't be written to: No space left on device\n"


def test_a_closed_stream_is_no_place_for_a_file(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """Without standard output, the first opened file would get its descriptor."""
    log = tmp_path / "log.jsonl"
    argv = ["replay", TRACE, "--log", str(log), "--out", str(tmp_path / "again.itf.json")]
    assert through(CLOSED + " 2>&-", argv, environment)[0] == 1
    assert status(["validate", str(log)]) == 1
    assert status(["show", str(tmp_path / "again.itf.json")]) == 0


def test_an_engine_that_calls_exit_earns_no_verdict(environment: dict[str, str]) -> None:
    """`sys.exit(0)` in an engine's factory is not "conforms"."""
    code, out, err = run(["run", "--engine", "faithless:leaves"], environment)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "makes no engine: SystemExit" in err


def test_whatever_goes_through_is_a_bug_of_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A broken pipe inside slotproof is a bug too. click would treat it as a departed reader,
    status 1."""
    from slotproof.cli import list as listing

    for error in (BrokenPipeError(32, "Broken pipe"), SystemExit(0), RecursionError("deep")):

        def fails(_: object, error: BaseException = error) -> Any:
            raise error

        monkeypatch.setattr(listing, "_table", fails)
        assert status(["list", "mutants"]) == 70
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1


@pytest.mark.parametrize(
    "locale",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"},
    ],
)
def test_a_locale_without_utf8(
    locale: dict[str, str], tmp_path: Path, environment: dict[str, str]
) -> None:
    """Files are still UTF-8. The terminal shows missing characters as escapes."""
    page = tmp_path / "page.html"
    variables = {**environment, **locale}
    assert run(["show", TRACE, "--format", "html", "--out", str(page)], variables) == (0, "", "")
    assert "≠" in page.read_text(encoding="utf-8")
    code, out, err = run(["show", TRACE], variables)
    assert (code, err) == (0, "") and "65 \\u2260 64" in out


def test_a_table_in_a_locale_without_utf8(tmp_path: Path, environment: dict[str, str]) -> None:
    variables = {**environment, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    bug = "reference:22213-double-count"
    argv = ["matrix", bug, "--config", "p1", "--examples", "4"]
    code, out, err = run([*argv, "--out", str(tmp_path)], variables)
    assert code in (0, 1) and err == "" and out.startswith("# Builds \\xd7 findings")
    assert "×" in (tmp_path / "matrix.md").read_text(encoding="utf-8")


# Ctrl-C -------------------------------------------------------------------------------


HANGS = "import sys, time; sys.stderr.write('here'); open(sys.argv[1], 'w').close(); time.sleep(60)"


def interrupted(argv: list[str], ready: Callable[[], bool], times: int) -> tuple[int, str, str]:
    """Send Ctrl-C to a command's process group once ready. Return status, output and errors."""
    process = subprocess.Popen(
        [*PROGRAM, *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not ready() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.01)
    for _ in range(times):
        try:
            os.killpg(process.pid, signal.SIGINT)
        except ProcessLookupError:
            break
        time.sleep(0.002)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("command", ["run --engine", "check-driver", "replay"])
def test_ctrl_c_at_hello(command: str, times: int, tmp_path: Path) -> None:
    """Status 3, never 130, and no traceback, even if more interrupts arrive during the first."""
    ready_file = tmp_path / "here"
    driver = tmp_path / "hangs.py"
    driver.write_text(HANGS)
    name = f"cmd:{sys.executable} {driver} {ready_file}"
    argv = ["replay", TRACE, "--engine", name] if command == "replay" else [*command.split(), name]
    code, out, err = interrupted(argv, ready_file.exists, times)
    assert (code, out, err) == (3, "", "")


def test_a_run_in_the_background_can_be_interrupted(tmp_path: Path) -> None:
    """A shell without job control makes the command ignore SIGINT. ``kill -INT`` still ends it."""
    ready_file = tmp_path / "here"
    driver = tmp_path / "hangs.py"
    driver.write_text(HANGS)
    argv = [*PROGRAM, "run", "--engine", f"cmd:{sys.executable} {driver} {ready_file}"]
    with subprocess.Popen(
        ["sh", "-c", '"$@" & echo $!; wait $!', "sh", *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as shell:
        assert shell.stdout is not None
        number = int(shell.stdout.readline())
        while not ready_file.exists():
            time.sleep(0.01)
        os.kill(number, signal.SIGINT)
        assert (shell.stdout.read(), shell.wait(60)) == ("", 3)


@pytest.mark.parametrize("module", ["cli.streams", "cli.commands", "search.campaign"])
def test_ctrl_c_while_modules_are_imported(module: str) -> None:
    """An interrupt counts from slotproof's first module on. Before, Python can't handle it."""
    code = f"""
import signal, sys
class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == "slotproof.{module}":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
sys.argv = ["slotproof", "list", "mutants"]
from slotproof.cli import app
app.main()
"""
    assert python(code) == (3, "", "")


def python(code: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    return done.returncode, done.stdout, done.stderr


def test_an_interrupt_in_a_destructor_is_not_lost() -> None:
    """Python prints the interrupt with a traceback and continues. slotproof raises it once more."""
    code = """
import signal, sys, time
sys.argv = ["slotproof", "list", "mutants"]
from slotproof.cli import app, list as listing
class Falls:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
        time.sleep(0)
def table(what):
    Falls()
    time.sleep(60)
listing._table = table
app.main()
"""
    assert python(code) == (3, "", "")
