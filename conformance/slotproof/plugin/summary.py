"""Summary of the suite at the end of a pytest session, over all items and workers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from slotproof.protocol.named import chosen
from slotproof.search.report import impossible, left_out
from slotproof.support.terminal import labelled, plain


class Summary:
    """Totals of the results in the reports of all items."""

    def __init__(self, config: pytest.Config) -> None:
        self.strict: bool = config.getoption("--slotproof-strict")
        self.engine = self.profile = ""
        self.failed = False
        self.run, self.planned = Counter[str](), Counter[str]()
        """Number of examples that ran, and number of planned examples, by configuration."""
        self.count, self.passed, self.by_choice = Counter[str](), Counter[str](), Counter[str]()
        self.offered, self.reached = set[str](), set[str]()
        self.missing: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        """Reasons why the engine refuses configurations, by configuration."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add an item's results. pytest calls this in the main process, also for workers' items."""
        seen: dict[str, Any] | None = getattr(report, "slotproof_seen", None)
        if seen is None:
            return
        self.refused |= seen.get("refused", {})
        if "engine" not in seen:
            return
        self.engine, self.profile = self.engine or seen["engine"], self.profile or seen["profile"]
        self.failed = self.failed or report.failed
        self.run[seen["config"]] += seen["examples"]
        self.planned[seen["config"]] += seen["planned"]
        self.count.update({name: seen[name] for name in ("commands", "iterations")})
        self.passed.update(seen["ignored"])
        self.by_choice.update(seen["by_choice"])
        self.offered |= {*seen["offered"]}
        self.reached |= seen["transitions"].keys()
        self.missing |= seen["not_observed"]

    def never(self) -> list[str]:
        """Return the transitions offered by the engine and allowed by the configurations, but not
        reached."""
        configs = chosen(self.planned).values()
        never = impossible(frozenset(self.offered), configs, self.profile).keys()
        return sorted(self.offered - self.reached - never)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a session that ran no example. In strict mode, also fail if a transition was not
        reached."""
        worker = hasattr(session.config, "workerinput")
        lacking = self.never() if self.engine else self.refused
        if (self.strict or not self.engine) and not worker and not session.exitstatus and lacking:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the summary under a heading."""
        if not self.engine:
            for name, reason in [*self.refused.items()][:1]:
                text = f"slotproof: the engine can take no configuration ({name}: {reason}); "
                text += "`slotproof run` has more configurations"
                terminalreporter.write_line(plain(text), red=True)
            return
        terminalreporter.section("slotproof")
        ran = f"{self.count['commands']} in {self.run.total()} examples"
        lines = [
            labelled("engine", f"{self.engine} (profile {self.profile})"),
            labelled("configurations", ", ".join(self.planned)),
            labelled("commands", f"{ran}, {self.count['iterations']} iterations"),
        ]
        for name, planned in self.planned.items():
            if self.run[name] < planned:
                count = f"{self.run[name]} of {planned} planned examples"
                lines.append(labelled("", f"{name}: {count}"))
        lines.append(labelled("transitions", f"{len(self.reached)} reached"))
        for line in (*lines, *left_out(self.passed, self.missing, self.by_choice)):
            terminalreporter.write_line(plain(line))
        if not self.failed and (never := self.never()):
            text = f"inconclusive: never reached: {', '.join(never)}"
            terminalreporter.write_line(plain(text), yellow=True)
