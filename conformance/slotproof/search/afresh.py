"""Replay of findings. Each finding gets a new process, which has run no example before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace

from slotproof.engines.base import EngineFailed, EngineUnusable
from slotproof.engines.registry import EngineSpec
from slotproof.lockstep.referee import play
from slotproof.search.findings import Finding
from slotproof.support import interrupts


def tried(
    spec: EngineSpec,
    findings: Sequence[Finding],
    tell: Callable[[str, int, int], None] = lambda *_: None,
) -> list[Finding]:
    """Replay each finding in a fresh process. Note in the trace if the finding does not reproduce.

    Ctrl-C, or an engine that does not start, leaves the remaining findings unchanged.
    """
    result = [*findings]
    with suppress(KeyboardInterrupt, EngineUnusable):
        for index, finding in enumerate(findings):
            interrupts.check()
            tell("replaying in a fresh process", index, len(findings))
            if not _shows(spec, finding):
                needs = finding.first - 1 if _shows(spec, finding, after=True) else 0
                result[index] = replace(finding, trace=replace(finding.trace, needs=needs))
    return result


def _shows(spec: EngineSpec, finding: Finding, after: bool = False) -> bool:
    """Return True if the finding reproduces. ``after``: replay its preceding example first."""
    trace = finding.trace
    if after and not finding.before:
        return False
    with closing(spec.open_afresh()) as engine:
        if after:
            with suppress(EngineFailed):
                engine.reset(trace.config, trace.seed)
                for command in finding.before:
                    engine.do(command)
        log = play(engine, trace.setup, trace.commands, trace.passes).log
    broken = log[-1].violations if log else []
    return trace.violations[0].clause in {violation.clause for violation in broken}
