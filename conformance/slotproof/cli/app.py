"""``slotproof``: how a command starts and how it ends.

Exit status: 0 conforms; 1 a counterexample; 2 wrong usage, an engine that can't start or output
that can't be written, with one line; 3 inconclusive, Ctrl-C included; 70 a bug of slotproof.

Nothing heavy is imported before an interrupt is caught: that takes a second where disks are slow.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, NoReturn

from slotproof.support import interrupts
from slotproof.support.statuses import CONFORMS, INCONCLUSIVE, INTERNAL, USAGE


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """The console script: runs a command and exits with its status, whatever happens."""
    sys.excepthook, sys.unraisablehook = _last_resort, _ignored
    code, final = INCONCLUSIVE, list[int]()
    try:
        interrupts.heed()  # before all that takes time
        atexit.register(_end, final)  # registered first, called last
        from slotproof.cli import streams

        streams.install()
        code = status(list(sys.argv[1:] if argv is None else argv))
        code = streams.settled(code)
    except KeyboardInterrupt:  # one more, while the first was being dealt with
        pass
    # All is said: an interrupt while Python exits must not change the status, nor be ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        if callable(signal.getsignal(number)):
            signal.signal(number, lambda *_: os._exit(code))
    caller = sys._getframe(1).f_globals.get("__name__")  # noqa: SLF001  # as warnings does
    if caller == "__main__":  # else it may go on
        final.append(code)
    sys.exit(code)


def status(argv: list[str]) -> int:
    """Run a command line; its exit status. Whatever goes wrong is told in one line."""
    from slotproof.cli.errors import DEBUG, tell_bug

    debug = os.environ.get(DEBUG, "") not in ("", "0") or argv[:1] == ["--debug"]
    try:
        if "_SLOTPROOF_COMPLETE" in os.environ:  # a shell, set up by --install-completion
            from slotproof.cli.commands import app

            with contextlib.suppress(SystemExit):
                app(prog_name="slotproof")
            return CONFORMS
        return _run(argv)
    except BaseException as error:  # noqa: BLE001  # SystemExit, too: an engine's is no verdict
        if _is_interrupt(error):
            return INCONCLUSIVE
        tell_bug(error, debug)
        return INTERNAL


def _run(argv: list[str]) -> int:
    import typer

    from slotproof.cli.commands import tree
    from slotproof.cli.errors import REPLACED, UsageProblem
    from slotproof.engines.base import EngineUnusable
    from slotproof.environments.families import EnvironmentProblem
    from slotproof.logs.format import BadLog
    from slotproof.protocol.config import BadConfig
    from slotproof.search.baseline import BadBaseline
    from slotproof.search.journal import BadJournal
    from slotproof.support.terminal import complain
    from slotproof.traces.itf import BadTrace

    bad_files = (BadBaseline, BadConfig, BadJournal, BadLog, BadTrace)
    wrong = (UsageProblem, EngineUnusable, EnvironmentProblem, *bad_files)
    try:
        # Not app(): that takes a pipe that broke anywhere for a reader who left, status 1.
        command = tree()
        with (
            interrupts.noted(),
            _blamed_on_interrupts(but=(*wrong, typer.Exit)),
            command.make_context("slotproof", [*argv]) as context,
        ):
            result: Any = command.invoke(context)
            return int(result) if isinstance(result, int) else CONFORMS
    except wrong as problem:
        text = str(problem)
    except typer.Exit as done:
        return int(done.exit_code)
    except SystemExit as done:
        if not {"--show-completion", "--install-completion"} & {*argv[:2]}:
            raise
        return done.code if isinstance(done.code, int) else CONFORMS  # typer's own end of them
    except Exception as error:
        if (message := getattr(error, "format_message", None)) is None:
            raise
        # click's own: an unknown option, a missing argument; pydantic's words before what is wrong
        text = message().replace("Value error, ", "", 1)
        unknown = re.match(r"No such (?:option|command):? '?([^\s']+?)'?(?:\.|\s|$)", text)
        if unknown and unknown[1] in REPLACED:
            text = f"{unknown[1]} is gone: {REPLACED[unknown[1]]}"
    if text:  # else there were no arguments at all, and help was shown
        complain(text)
    return USAGE


@contextlib.contextmanager
def _blamed_on_interrupts(but: tuple[type[Exception], ...]) -> Iterator[None]:
    """What fails after an interrupt fails because of it: a library was left in the middle."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, but) and not hasattr(error, "format_message"):
            interrupts.check()
        raise


def _is_interrupt(error: BaseException) -> bool:
    """Return whether an interrupt was raised, or what Python 3.11 makes of one in a class's
    ``__set_name__``: a ``RuntimeError`` from it. Modules make classes while they are imported."""
    return isinstance(error, KeyboardInterrupt) or isinstance(error.__cause__, KeyboardInterrupt)


def _end(final: list[int]) -> None:
    """The status stays what was settled, if it was, whatever Python still does.

    It takes its handlers down before it is gone, and then an interrupt would kill it. And after
    one that came out of an ``exec`` of text, it ends as if nobody had caught it.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if final:
        from slotproof.cli import streams

        streams.flush()
        os._exit(final[0])


def _last_resort(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """What gets past :func:`main`, between two statements: Python would exit with 130 or 1."""
    if _is_interrupt(error):
        os._exit(INCONCLUSIVE)
    sys.__excepthook__(kind, error, trace)
    os._exit(INTERNAL)


def _ignored(what: sys.UnraisableHookArgs) -> None:
    """An interrupt within a destructor, from where none can be raised, comes once more.

    What a destructor lacks after one was never made because of it: nothing to tell.
    """
    if issubclass(what.exc_type, KeyboardInterrupt):
        with contextlib.suppress(RuntimeError):  # Python exits: no thread starts any more
            main = threading.main_thread().ident
            threading.Timer(0.01, signal.pthread_kill, (main, signal.SIGINT)).start()
    elif not interrupts.heard():
        sys.__unraisablehook__(what)


if __name__ == "__main__":
    main()
