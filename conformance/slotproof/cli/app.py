"""Entry point of ``slotproof``. It runs a command and exits with the command's status.

Exit status: 0 conforms, 1 a counterexample, 3 inconclusive or interrupted, 70 a bug of slotproof.
Status 2 means wrong usage, an engine that can't start, or output that can't be written.
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
    """Run a command and exit with its status, whatever happens."""
    sys.excepthook, sys.unraisablehook = _last_resort, _ignored
    code, final = INCONCLUSIVE, list[int]()
    try:
        interrupts.heed()  # before any slow import, because imports take a second on a slow disk
        atexit.register(_end, final)  # registered first, called last
        from slotproof.cli import streams

        streams.install()
        code = status(list(sys.argv[1:] if argv is None else argv))
        code = streams.settled(code)
    except KeyboardInterrupt:  # a second interrupt, while the first was handled
        pass
    # Output is complete. From now on, an interrupt ends the process but keeps the status.
    for number in (signal.SIGINT, signal.SIGTERM):
        if callable(signal.getsignal(number)):
            signal.signal(number, lambda *_: os._exit(code))
    caller = sys._getframe(1).f_globals.get("__name__")  # noqa: SLF001  # as warnings does
    if caller == "__main__":  # another caller may continue
        final.append(code)
    sys.exit(code)


def status(argv: list[str]) -> int:
    """Run a command line and return its exit status. Every failure is reported in one line."""
    from slotproof.cli.errors import DEBUG, tell_bug

    debug = os.environ.get(DEBUG, "") not in ("", "0") or argv[:1] == ["--debug"]
    try:
        if "_SLOTPROOF_COMPLETE" in os.environ:  # a shell, set up by --install-completion
            from slotproof.cli.commands import app

            with contextlib.suppress(SystemExit):
                app(prog_name="slotproof")
            return CONFORMS
        return _run(argv)
    except BaseException as error:  # noqa: BLE001  # an engine's SystemExit is no verdict
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
        # app() is not called: it mistakes any broken pipe for a reader of our output that left.
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
        return done.code if isinstance(done.code, int) else CONFORMS  # typer has exited
    except Exception as error:
        if (message := getattr(error, "format_message", None)) is None:
            raise
        # an error of click: drop the words that pydantic puts before the problem
        text = message().replace("Value error, ", "", 1)
        unknown = re.match(r"No such (?:option|command):? '?([^\s']+?)'?(?:\.|\s|$)", text)
        if unknown and unknown[1] in REPLACED:
            text = f"{unknown[1]} is gone: {REPLACED[unknown[1]]}"
    if text:  # empty: no arguments, and help was shown
        complain(text)
    return USAGE


@contextlib.contextmanager
def _blamed_on_interrupts(but: tuple[type[Exception], ...]) -> Iterator[None]:
    """Raise the pending interrupt in place of a failure that it caused inside a library."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, but) and not hasattr(error, "format_message"):
            interrupts.check()
        raise


def _is_interrupt(error: BaseException) -> bool:
    """Return True for an interrupt, or for a ``RuntimeError`` caused by one. Python 3.11 raises
    such an error if an interrupt comes in a class's ``__set_name__``, as in an import."""
    return isinstance(error, KeyboardInterrupt) or isinstance(error.__cause__, KeyboardInterrupt)


def _end(final: list[int]) -> None:
    """End the process with the settled exit status, before Python removes its signal handlers.
    Without the handlers, an interrupt would kill the process. Python itself would exit with an
    interrupt's status if an interrupt was ever raised in an ``exec`` of text."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if final:
        from slotproof.cli import streams

        streams.flush()
        os._exit(final[0])


def _last_resort(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Exit with a status of slotproof, not Python's 130 or 1, after an error outside ``main``."""
    if _is_interrupt(error):
        os._exit(INCONCLUSIVE)
    sys.__excepthook__(kind, error, trace)
    os._exit(INTERNAL)


def _ignored(what: sys.UnraisableHookArgs) -> None:
    """Send an interrupt again if it came in a destructor, because no exception leaves a destructor.
    After an interrupt, errors of destructors are not reported, because objects may be incomplete.
    """
    if issubclass(what.exc_type, KeyboardInterrupt):
        with contextlib.suppress(RuntimeError):  # While Python exits, no thread can start.
            main = threading.main_thread().ident
            threading.Timer(0.01, signal.pthread_kill, (main, signal.SIGINT)).start()
    elif not interrupts.heard():
        sys.__unraisablehook__(what)


if __name__ == "__main__":
    main()
