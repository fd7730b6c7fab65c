"""Runs from Python: ``slotproof run`` without files and without a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from slotproof.engines.registry import EngineSpec
from slotproof.reports.trace import Trace
from slotproof.search import afresh, campaign, report
from slotproof.search.campaign import Outcome
from slotproof.search.plan import EXAMPLES, Plan
from slotproof.support.terminal import plain


@dataclass(frozen=True, repr=False)
class Report:
    """Result of a run. Its text form is the report of ``slotproof run``."""

    outcome: Outcome
    """Findings, the plainest first, and coverage."""
    summary: dict[str, Any]
    """Summary as in ``slotproof run --json``. ``status`` is the exit status."""

    @property
    def trace(self) -> Trace | None:
        """The plainest counterexample."""
        return self.outcome.trace

    def __repr__(self) -> str:
        return "\n".join(map(plain, [*report.text(self.summary), report.verdict(self.summary)]))


def run(
    engine: str = "reference",
    *,
    configs: Sequence[str] | None = None,
    examples: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    patches: Sequence[str] = (),
) -> Report:
    """Search an engine for counterexamples, and shrink the findings.

    ``engine`` is an ``--engine`` argument. ``configs`` are configuration names, by default the
    names in a covering array. The run ends with the first few findings, after ``examples`` (1,400
    by default) or ``seconds``, or on Ctrl-C. Raises :class:`EngineUnusable` if the engine can't
    start, and ``ValueError`` for an unknown configuration or an invalid number.

    >>> from slotproof import run
    >>> found = run("reference:22213-double-count", configs=["p1"], examples=60)
    >>> found.trace.violations[0].clause, len(found.trace.commands)
    ('INV-SUM-FULL.reported', 5)
    >>> print(str(found).splitlines()[-1])
    counterexample: INV-SUM-FULL.reported
    """
    if examples is not None and examples < 1:
        raise ValueError(f"examples={examples} must be at least 1")
    if seconds is not None and not seconds > 0:
        raise ValueError(f"seconds={seconds} must be more than 0")
    if isinstance(configs, str):
        raise ValueError(f"configs={configs!r} must be a list of names")  # noqa: TRY004  # as the rest
    if examples is None and seconds is None:
        examples = EXAMPLES
    plan = Plan.named(configs, examples=examples, seconds=seconds, seed=seed)
    spec = EngineSpec.parse(engine, patches=patches)
    with closing(spec.open()) as under_test:
        plan = plan.of(under_test.capabilities)
        outcome = campaign.run(under_test, spec.text, plan)
        outcome.findings = afresh.tried(spec, outcome.findings)
        return Report(outcome, report.summary(outcome, plan, under_test.capabilities))
