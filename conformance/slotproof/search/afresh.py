"""Whether findings show again in a fresh process, in which no other example ran before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace

from slotproof.engines.base import Engine, EngineFailed, EngineUnusable
from slotproof.engines.registry import EngineSpec
from slotproof.lockstep.referee import play
from slotproof.search.findings import Finding
from slotproof.support import interrupts


def tried(
    spec: EngineSpec,
    findings: Sequence[Finding],
    tell: Callable[[str, int, int], None] = lambda *_: None,
) -> list[Finding]:
    """Replay each finding once, and note in its trace if it does not show there.

    One process serves them all, up to a finding that does not show: the next one has another.
    Ctrl-C, or an engine that does not start, leaves the rest as it is.
    """
    result = [*findings]
    with suppress(KeyboardInterrupt, EngineUnusable), ExitStack() as stack:
        engine: Engine | None = None
        for index, finding in enumerate(findings):
            interrupts.check()
            tell("replaying in a fresh process", index, len(findings))
            engine = engine or stack.enter_context(closing(spec.open()))
            if not _shows(engine, finding):
                with closing(spec.open()) as other:
                    needs = finding.first - 1 if _shows(other, finding, after=True) else 0
                result[index] = replace(finding, trace=replace(finding.trace, needs=needs))
                engine = None
    return result


def _shows(engine: Engine, finding: Finding, after: bool = False) -> bool:
    """Whether the trace breaks its clause, or does ``after`` the example before it."""
    trace = finding.trace
    if after:
        if not finding.before:
            return False
        with suppress(EngineFailed):
            engine.reset(trace.config, trace.seed)
            for command in finding.before:
                engine.do(command)
    log = play(engine, trace.setup, trace.commands, trace.passes).log
    broken = log[-1].violations if log else []
    return trace.violations[0].clause in {each.clause for each in broken}
