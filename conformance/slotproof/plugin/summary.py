"""What the suite says at the end of a pytest session, over all items and workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from slotproof.protocol.config import chosen
from slotproof.search.report import impossible, left_out
from slotproof.support.terminal import labelled, plain


class Summary:
    """Adds up what the reports of the items brought along."""

    def __init__(self, config: pytest.Config) -> None:
        self.strict: bool = config.getoption("--slotproof-strict")
        self.seen: list[dict[str, Any]] = []
        self.failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called in the main process, for items of workers too."""
        if (seen := getattr(report, "slotproof_seen", None)) is not None:
            self.seen.append(seen)
            self.failed = self.failed or report.failed

    def short(self) -> Iterator[tuple[str, int, int]]:
        """Configurations with fewer examples than were planned: (name, run, planned)."""
        run, planned = Counter[str](), Counter[str]()
        for seen in self.seen:
            run[seen["config"]] += seen["examples"]
            planned[seen["config"]] += seen["planned"]
        yield from ((name, run[name], n) for name, n in planned.items() if run[name] < n)

    def never(self) -> list[str]:
        """Transitions that the engine offers and these configurations allow, not reached."""
        offered = frozenset(name for seen in self.seen for name in seen["offered"])
        reached = {name for seen in self.seen for name in seen["transitions"]}
        configs = list(chosen({seen["config"] for seen in self.seen}).values())
        never = impossible(offered, configs, self.seen[0]["profile"]).keys()
        return sorted(offered - reached - never)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Strict: nothing found, but not everything seen, is a failure."""
        worker = hasattr(session.config, "workerinput")
        if self.strict and not worker and self.seen and self.never() and not session.exitstatus:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """A few lines under a heading of their own."""
        if not self.seen:
            return

        def write(line: str, **style: bool) -> None:
            terminalreporter.write_line(plain(line), **style)

        terminalreporter.section("slotproof")
        first = self.seen[0]
        total, passed, by_choice = Counter[str](), Counter[str](), Counter[str]()
        missing: dict[str, str] = {}
        for seen in self.seen:
            total.update({name: seen[name] for name in ("examples", "commands", "iterations")})
            passed.update(seen["set_aside"])
            by_choice.update(seen["by_choice"])
            missing |= seen["not_observed"]
        names = dict.fromkeys(seen["config"] for seen in self.seen)
        write(labelled("engine", f"{first['engine']} (profile {first['profile']})"))
        write(labelled("configurations", ", ".join(names)))
        ran = f"{total['commands']} in {total['examples']} examples"
        write(labelled("commands", f"{ran}, {total['iterations']} iterations"))
        for name, run, planned in self.short():
            write(labelled("", f"{name}: {run} of {planned} that were planned"))
        reached = {name for seen in self.seen for name in seen["transitions"]}
        write(labelled("transitions", f"{len(reached)} reached"))
        for line in left_out(passed, missing, by_choice):
            write(line)
        never = self.never()
        if never and not self.failed:
            write(f"inconclusive: never reached: {', '.join(never)}", yellow=True)
