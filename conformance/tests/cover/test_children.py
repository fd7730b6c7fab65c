"""Programs started by slotproof end with it, and their output has a bound."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

import pytest

from slotproof.engines.base import EngineFailed, EngineUnusable
from slotproof.engines.pipe import Drain, Pipe
from slotproof.support import bounds
from slotproof.support.children import Child, run
from slotproof_model.proofs.pool import pool
from tests.processes import Descent

TOP = Path(__file__).parents[3]
needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="there is no /proc")

FAMILY = """
import os, signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
os.fork()
os.fork()
os.write(1, b"up\\n")  # at once, also where output is not buffered
while True:
    time.sleep(600)
"""
"""Four processes that only SIGKILL ends."""

PARENT = f"""
import os, sys, threading, time
from slotproof.support.children import PIPE, Child
child = Child([sys.executable, "-c", {FAMILY!r}], stdout=PIPE)
for _ in range(4):
    child.process.stdout.readline()
print("up", flush=True)
{{}}
time.sleep(600)
"""


def parent(descent: Descent, then: str = "") -> subprocess.Popen[bytes]:
    """Start a process whose child has children."""
    code = [sys.executable, "-c", PARENT.format(then)]
    process = subprocess.Popen(code, stdout=subprocess.PIPE, env=descent.environment)
    assert process.stdout is not None and process.stdout.readline() == b"up\n"
    process.stdout.close()
    return process


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_program_and_its_children_end_with_us(descent: Descent, number: signal.Signals) -> None:
    """Point 10: 5 seconds after any end of this process, no child is left."""
    process = parent(descent)
    assert len(descent.alive()) == 6, "the parent, the watcher and four that hang"
    process.send_signal(number)
    process.wait()
    assert descent.outlive(5.0) == {}


@needs_proc
@pytest.mark.parametrize("then", ["os._exit(0)", "sys.exit(0)", "raise KeyError", "os.abort()"])
def test_a_program_ends_with_a_parent_that_leaves(descent: Descent, then: str) -> None:
    parent(descent, then).wait()
    assert descent.outlive(5.0) == {}


@needs_proc
def test_a_program_does_not_end_with_the_thread_that_started_it(descent: Descent) -> None:
    """Linux' parent-death signal would end it."""
    started: list[Child] = []
    start = lambda: started.append(Child(["sleep", "600"], env=descent.environment))  # noqa: E731
    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    time.sleep(0.2)
    assert started[0].process.poll() is None
    started[0].kill()
    started[0].kill()
    assert descent.outlive(5.0) == {}


@needs_proc
def test_a_child_that_nobody_holds_ends(descent: Descent) -> None:
    """An interrupt right after the start, before any reference to the child, leaves no process."""
    Child(["sleep", "600"], env=descent.environment)
    assert descent.outlive(5.0) == {}


@needs_proc
def test_what_a_program_leaves_behind_ends_with_it(descent: Descent) -> None:
    done = run(["sh", "-c", "sleep 600 >/dev/null 2>&1 & echo done"], env=descent.environment)
    assert (done.returncode, done.stdout) == (0, b"done\n")
    assert descent.outlive(5.0) == {}


@needs_proc
def test_a_program_that_does_not_start_leaves_no_watcher(descent: Descent) -> None:
    with pytest.raises(FileNotFoundError):
        Child(["/no/such/program"], env=descent.environment)
    assert descent.alive() == {}


def test_programs_are_started_in_one_place() -> None:
    """Code that starts a program in another way must end it itself, even after a SIGKILL.

    The same holds for tests that start a build of SGLang, which would run on without pytest.
    """
    tools = {"Popen", "run", "call", "check_call", "check_output", "getoutput", "system", "popen"}
    others = []
    for path in sorted(TOP.glob("conformance/**/*.py")):
        long = path.parts[-2:-1] == ("sglang",) and path.name != "test_kills.py"
        if ("tests" in path.parts and not long) or path.name == "children.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
                continue
            if node.value.id in ("subprocess", "os") and node.attr in tools:
                others.append(f"{path.relative_to(TOP)}:{node.lineno}")
    assert others == []


def test_ctrl_c_of_a_terminal_is_not_for_a_program() -> None:
    with Child(["sleep", "600"]) as child:
        assert os.getpgid(child.process.pid) not in (os.getpgid(0), child.process.pid)


# Pools, and signals --------------------------------------------------------------------

POOL = r"""
import itertools, multiprocessing, os, signal, sys, time
from slotproof_model.proofs.pool import pool

def busy(number):
    os.write(1, b"up\n")
    while True:
        pass

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with pool(3, multiprocessing.get_context(sys.argv[1])) as processes:
        list(processes.map(busy, range(2)))
"""


@needs_proc
@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_processes_of_a_pool_end_with_us(
    descent: Descent, method: str, number: signal.Signals, tmp_path: Path
) -> None:
    """The pool is that of `prove`, in the middle of its work."""
    (tmp_path / "pooled.py").write_text(POOL)
    process = subprocess.Popen(
        [sys.executable, tmp_path / "pooled.py", method],
        env=descent.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
    )
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == [b"up\n"] * 2
    if number == signal.SIGKILL:
        process.send_signal(number)
    else:
        os.killpg(process.pid, number)  # as a terminal does, and `timeout`
    assert descent.outlive(5.0) == {}
    _, err = process.communicate()
    assert err.count(b"Traceback") == (number != signal.SIGKILL), "that of the parent alone"


def test_processes_of_a_pool_start_deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting processes inherit blocked signals, so an early Ctrl-C can't reach them."""
    seen = []
    real = ProcessPoolExecutor.submit

    def submit(*arguments: Any) -> Any:
        seen.append(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        return real(*arguments)

    monkeypatch.setattr(ProcessPoolExecutor, "submit", submit)
    with pool(1) as processes:
        assert processes.submit(abs, -1).result() == 1
    assert seen == [{signal.SIGINT, signal.SIGTERM}]
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()


def test_a_pool_knows_its_own_processes() -> None:
    """Processes of another pool keep running."""
    with pool(1) as one:
        number = one.submit(os.getpid).result()
        with contextlib.suppress(KeyError), pool(1) as other:
            other.submit(time.sleep, 600)
            raise KeyError
        assert one.submit(os.getpid).result() == number


@needs_proc
@pytest.mark.parametrize("ignoring", [False, True], ids=["plain", "in the background of a shell"])
def test_sigterm_ends_a_command_as_ctrl_c_does(
    descent: Descent, ignoring: bool, tmp_path: Path
) -> None:
    """Status 3, even if a shell makes the command ignore Ctrl-C. The command waits for a hello."""
    driver = f"import os, time; os.mkdir({str(tmp_path / 'up')!r}); time.sleep(600)"
    engine = "cmd:" + shlex.join([sys.executable, "-c", driver])
    argv = [sys.executable, "-m", "slotproof.cli.app", "run", "--engine", engine]
    deaf = "signal.signal(signal.SIGINT, signal.SIG_IGN)" if ignoring else "pass"
    code = f"import os, signal, sys; {deaf}; os.execv(sys.argv[1], sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *argv, "--out", tmp_path / "out"],
        env=descent.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    while not (tmp_path / "up").exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.terminate()
    said, _ = process.communicate()
    assert process.returncode == 3 and b"Traceback" not in said
    assert descent.outlive(5.0) == {}


# Standard error ----------------------------------------------------------------------


def pipe(code: str) -> Pipe:
    return Pipe([sys.executable, "-c", f"import os, sys\n{code}"])


def failure(code: str) -> str:
    """Return the trace attached to the failure of a driver without standard output."""
    driver = pipe(code)
    try:
        with pytest.raises(EngineFailed) as caught:
            driver.line(60.0)
    finally:
        driver.kill()
    return caught.value.trace


def test_a_driver_that_floods_standard_error_is_neither_blocked_nor_kept_whole() -> None:
    """Point 13: of 200 MB the beginning and the end stay. The last words are whole."""
    said = failure(
        "print('it begins', file=sys.stderr, flush=True)\n"
        "for _ in range(3200): os.write(2, b'x' * 65535 + b'\\n')\n"
        "print('segmentation fault', file=sys.stderr, flush=True)\n"
        "os._exit(3)"
    )
    assert said.startswith("it begins\nxxx") and said.endswith("xxx\nsegmentation fault\n")
    left_out = re.search(r"\n… ([0-9]+) bytes left out …\n", said)
    assert left_out is not None
    kept = bounds.STDERR_FIRST + bounds.STDERR_LAST
    assert int(left_out[1]) == 3200 * 65536 + len("it begins\nsegmentation fault\n") - kept
    assert len(said) < kept + 50


def test_a_driver_that_floods_before_it_answers_is_heard() -> None:
    """Standard error is read all the time. A full pipe would block the driver's answer."""
    driver = pipe("os.write(2, b'x' * 4_000_000); print('{}', flush=True); sys.stdin.read()")
    try:
        assert driver.line(60.0) == b"{}"
    finally:
        driver.kill()
    assert driver.stderr().startswith("xxx"), "what is kept outlives the driver"


def test_the_last_words_of_a_driver_that_is_killed() -> None:
    """A crash writes and dies at once, while a forked process holds standard error open."""
    for _ in range(20):
        said = failure(
            "if os.fork() == 0:\n"
            "    os.close(1)\n"
            "    import time; time.sleep(600)\n"
            "os.write(2, b'y' * 60_000 + b'out of memory')\n"
            "os.kill(os.getpid(), 9)"
        )
        assert said.endswith("yyyout of memory")


def test_text_that_is_cut_in_a_character_is_readable() -> None:
    assert failure("os.write(2, b'x' + 'ü'.encode() * 4000)").count("ü") == 499 + 2000


def descriptors() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


def test_a_drain_that_is_closed_holds_no_descriptor() -> None:
    before = descriptors()
    for _ in range(5):
        with Child(["echo", "x"], stderr=PIPE, stdout=DEVNULL) as child:
            assert child.process.stderr is not None
            drain = Drain(child.process.stderr, 10, 10)
            drain.close()
            drain.close()
    assert descriptors() == before


# Descriptors -------------------------------------------------------------------------


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """Open more than 1,024 descriptors, the limit of `select`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1500:
        pytest.skip("this user may not open 1,500 files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1500), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    yield
    for descriptor in opened:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_driver_with_more_than_1024_descriptors_open(many_descriptors: None) -> None:
    """Point 8: an exchange, and the end of a driver that does not read."""
    driver = pipe("print(sys.stdin.readline(), flush=True); import time; time.sleep(600)")
    try:
        driver.send("x" * 10, 60.0)
        assert driver.line(60.0) == b"x" * 10
        with pytest.raises(EngineFailed, match="does not read"):
            driver.send("x" * 4_000_000, 0.3)
    finally:
        driver.kill()


def test_without_a_descriptor_left_a_driver_is_unusable() -> None:
    """One line, and no process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors() + 3, hard))
    try:
        with pytest.raises(EngineUnusable, match=r"can't start .*: Too many open files"):
            pipe("")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
