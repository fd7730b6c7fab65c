"""A pytest item of the suite: one configuration, a share of the examples, and a seed."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from slotproof.cli.errors import UsageProblem
from slotproof.cli.options import known_clauses, known_profile, number
from slotproof.engines.base import Engine, EngineFailed, EngineUnusable, versioned
from slotproof.protocol.config import CONFIGS, BadConfig
from slotproof.protocol.named import NUMBERED, chosen
from slotproof.reports import text
from slotproof.search.baseline import BadBaseline, Baseline, load
from slotproof.search.campaign import Outcome, run
from slotproof.search.causes import causes
from slotproof.search.findings import Finding
from slotproof.search.folder import SUFFIX, Folder
from slotproof.search.gate import Gate
from slotproof.search.plan import Plan, planned
from slotproof.support.files import slug
from slotproof.support.terminal import plain
from slotproof.traces.itf import BadTrace

LEAST = 10
"""Least number of examples per item."""


@dataclass
class Findings:
    """Baseline and reported findings of a pytest session."""

    gate: Gate
    shared: Path | None = None
    """Folder in which the workers of pytest-xdist share the identities of reported findings."""
    told: set[str] = field(default_factory=set)

    def first(self, finding: Finding) -> bool:
        """Record a finding. Return True if no part has reported the finding before."""
        if finding.id in self.told:
            return False
        self.told.add(finding.id)
        if self.shared is not None:
            self.shared.mkdir(mode=0o700, exist_ok=True)
            try:
                (self.shared / finding.mark.slug).touch(exist_ok=False)
            except FileExistsError:
                return False
        return True


@dataclass(frozen=True)
class Part:
    """A share of the examples in one configuration, run as `slotproof run` runs examples."""

    spec: str
    config: str
    number: int
    of: int
    plan: Plan
    out: Path

    def __str__(self) -> str:
        return self.config if self.of == 1 else f"{self.config}-{self.number}of{self.of}"

    def run(self, findings: Findings, item: pytest.Item) -> None:
        """Run the item, and fail it for a counterexample. The trace's path becomes a property."""
        gate, engine = findings.gate, findings.gate.engine
        if (reason := engine.capabilities.refuses(self.plan.configs[self.config])) is not None:
            item.slotproof_seen = {"refused": {self.config: reason}}  # type: ignore[attr-defined]
            pytest.skip(plain(f"{engine.name} can't take {self.config}: {reason}"))
        folder = Folder(self.out, self._name)
        accepted = replace(gate.accepted, ids=gate.accepted.ids | findings.told)
        try:
            outcome = run(engine, self.spec, self.plan, keep=folder.keep, accepted=accepted)
            judged = gate.judge(outcome.findings)
            new = [judgement.finding for judgement in judged if judgement.group is None]
            new = [finding for finding in new if findings.first(finding)]
            folder.keep(new)
        except (EngineFailed, EngineUnusable) as problem:
            pytest.fail(plain(f"slotproof: {problem}"), pytrace=False)
        properties = {
            "engine": outcome.engine,
            "seed": self.plan.seed,
            "examples_planned": self.plan.examples,
            "examples_run": outcome.examples,
        }
        item.user_properties += [(f"slotproof_{name}", f"{of}") for name, of in properties.items()]
        item.slotproof_seen = self._seen(outcome, engine)  # type: ignore[attr-defined]
        if outcome.interrupted:
            raise KeyboardInterrupt
        if new:
            pytest.fail(_text(new, folder, item), pytrace=False)

    def _seen(self, outcome: Outcome, engine: Engine) -> dict[str, object]:
        """Return the data for the summary of the session."""
        coverage, capabilities = outcome.coverage, engine.capabilities
        return {
            "engine": outcome.engine,
            "profile": outcome.profile,
            "config": self.config,
            "examples": outcome.examples,
            "planned": self.plan.examples,
            "commands": coverage.commands,
            "iterations": coverage.iterations,
            "offered": sorted(capabilities.seen_to_make),
            "transitions": dict(coverage.transitions),
            "ignored": dict(coverage.ignored),
            "by_choice": dict(coverage.by_choice),
            "not_observed": capabilities.unseen,
        }

    def _name(self, _: int, finding: Finding) -> str:
        """Return the file name of a counterexample of this part."""
        words = f"{self.spec}-{self.config}-{finding.mark.slug}-seed{self.plan.seed}"
        return f"{slug(words)}{SUFFIX}"


def _text(new: list[Finding], folder: Folder, item: pytest.Item) -> str:
    """Return the plainest finding of each cause in full, and each other finding by its identity."""
    parts = []
    for cause in causes(new):
        first, *others = cause.findings
        path, problem = str(folder.paths[first.id]), folder.problem(first)
        if problem is None:
            item.user_properties.append(("slotproof_trace", path))
        item.user_properties.append(("slotproof_clause", first.mark.clause))
        also = "".join(f"\nalso seen as {one.id}: {folder.path(one)}" for one in others)
        parts.append(f"{text.render(first.trace, path)}trace: {problem or path}{also}")
    return "\n\n".join(parts)


def findings(config: pytest.Config, engine: Engine) -> Findings:
    """Return the findings of the session, after a replay of the baseline's traces."""
    path: Path | None = config.getoption("--slotproof-baseline")
    baseline = load(path) if path is not None else Baseline()
    plan = Plan({}, seed=config.getoption("--slotproof-seed"))
    gate = Gate(engine, versioned(engine), baseline, plan)
    gate.replay()
    run_of: str | None = getattr(config, "workerinput", {}).get("testrunuid")
    return Findings(gate, Path(tempfile.gettempdir()) / f"slotproof-{run_of}" if run_of else None)


def parts(config: pytest.Config) -> list[Part]:
    """Return the items requested by the options. Raises :class:`pytest.UsageError`, in one line."""
    option = config.getoption
    prefix = "--slotproof-"
    baseline_file = option(prefix + "baseline")
    try:
        names = option(prefix + "config") or CONFIGS  # CONFIGS has no server options
        if numbered := [name for name in names if NUMBERED.fullmatch(name)]:
            raise BadConfig(
                f"{prefix}config {numbered[0]} exists only for `slotproof run`: choose one of "
                "`slotproof list configs`"
            )
        configs = chosen(names)
        examples = number(option(prefix + "examples"), 1, prefix + "examples")
        count = number(option(prefix + "parts"), 1, prefix + "parts")
        seed = number(option(prefix + "seed"), 0, prefix + "seed")
        profile = known_profile(option(prefix + "profile"))
        ignored = known_clauses(option(prefix + "ignore"), prefix + "ignore")
        if baseline_file is not None:
            load(baseline_file).check()
    except (UsageProblem, BadBaseline, BadConfig, BadTrace) as problem:
        raise pytest.UsageError(str(problem)) from None
    count = min(count, max(1, examples // (len(configs) * LEAST)))
    every = [(name, index) for index in range(count) for name in configs]
    whole = Plan({}, examples=examples, profile=profile, ignored=ignored)
    if baseline_file is not None:
        whole = replace(whole, distinct=None)
    engine, out, items = option(prefix + "engine"), option(prefix + "out"), []
    for (name, index), share in planned(whole, every).items():
        plan = replace(whole, configs={name: configs[name]}, examples=share, seed=seed + index)
        items.append(Part(engine, name, index + 1, count, plan, out))
    return items
