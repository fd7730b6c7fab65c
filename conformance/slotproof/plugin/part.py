"""One pytest item of the suite: a configuration, its share of the examples, a seed of its own."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from slotproof.cli.errors import UsageProblem
from slotproof.cli.options import known_clauses, known_profile, number
from slotproof.engines.base import Engine, EngineFailed, EngineUnusable, versioned
from slotproof.protocol.config import CONFIGS, BadConfig, chosen
from slotproof.reports import text
from slotproof.search.baseline import BadBaseline, Baseline, load
from slotproof.search.campaign import Outcome, run
from slotproof.search.causes import causes
from slotproof.search.findings import Finding
from slotproof.search.folder import Folder
from slotproof.search.gate import Gate, Judged
from slotproof.search.plan import LEAST, Plan, planned
from slotproof.search.symptoms import AcceptedFindings
from slotproof.support.files import slug
from slotproof.support.terminal import plain
from slotproof.traces.itf import BadTrace


@dataclass
class Findings:
    """What is known, and what was told already, in one session of pytest."""

    gate: Gate
    shared: Path | None = None
    """Where workers of pytest-xdist tell each other what they told."""
    told: set[str] = field(default_factory=set)

    @property
    def accepted(self) -> AcceptedFindings:
        """What a part need not look at."""
        return replace(self.gate.accepted, ids=self.gate.accepted.ids | self.told)

    def new(self, findings: list[Finding]) -> list[Judged]:
        """Those that are in no group of the baseline and were told by no other part."""
        judged = self.gate.judge(findings)
        return [each for each in judged if each.group is None and self._first(each.finding)]

    def _first(self, finding: Finding) -> bool:
        new = finding.id not in self.told
        self.told.add(finding.id)
        if self.shared is None or not new:
            return new
        self.shared.mkdir(mode=0o700, exist_ok=True)
        try:
            (self.shared / finding.mark.slug).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


@dataclass(frozen=True)
class Part:
    """Some examples in one configuration: what `slotproof run` does with its seed."""

    spec: str
    config: str
    number: int
    of: int
    plan: Plan
    out: Path
    engine: Any = None
    item: Any = None
    findings: Any = None
    """With these three it can be run."""

    def __str__(self) -> str:
        return self.config if self.of == 1 else f"{self.config}-{self.number}of{self.of}"

    def record(self, name: str, value: str) -> None:
        """A property of the item in JUnit XML."""
        self.item.user_properties.append((name, value))

    def run(self) -> None:
        """Run it. A counterexample fails the item with its text; its file is a property."""
        engine: Engine = self.engine
        if (reason := engine.capabilities.refuses(self.plan.configs[self.config])) is not None:
            pytest.skip(plain(f"{engine.name} can't take {self.config}: {reason}"))
        folder = Folder(self.out, self._name)
        try:
            accepted = self.findings.accepted
            outcome = run(engine, self.spec, self.plan, keep=folder.keep, accepted=accepted)
            new = self.findings.new(outcome.findings)
            folder.keep([each.finding for each in new])
        except (EngineFailed, EngineUnusable) as problem:
            pytest.fail(plain(f"slotproof: {problem}"), pytrace=False)
        self._note(outcome)
        if outcome.interrupted:
            raise KeyboardInterrupt
        if new:
            pytest.fail(self._text(new, folder), pytrace=False)

    def _note(self, outcome: Outcome) -> None:
        """What the summary of the whole session is made from."""
        coverage, capabilities = outcome.coverage, self.engine.capabilities
        self.item.slotproof_seen = {
            "engine": outcome.engine,
            "profile": outcome.profile,
            "config": self.config,
            "examples": outcome.examples,
            "planned": self.plan.examples,
            "commands": coverage.commands,
            "iterations": coverage.iterations,
            "offered": sorted(capabilities.seen_to_make),
            "transitions": dict(coverage.transitions),
            "checked": dict(coverage.checked),
            "set_aside": dict(coverage.set_aside),
            "by_choice": dict(coverage.by_choice),
            "not_observed": capabilities.unseen,
        }
        self.record("slotproof_engine", outcome.engine)
        self.record("slotproof_seed", str(self.plan.seed))
        self.record("slotproof_examples_planned", str(self.plan.examples))
        self.record("slotproof_examples_run", str(outcome.examples))

    def _name(self, number: int, finding: Finding) -> str:
        """The file of a counterexample of this part."""
        del number
        words = f"{self.spec}-{self.config}-{finding.mark.slug}-seed{self.plan.seed}"
        return f"{slug(words)}.itf.json"

    def _text(self, new: list[Judged], folder: Folder) -> str:
        """Return the plainest finding of each cause whole, the others by identity."""
        parts = []
        for cause in causes([one.finding for one in new]):
            each, *others = cause.findings
            path, problem = str(folder.paths[each.id]), folder.problem(each)
            if problem is None:
                self.record("slotproof_trace", path)
            self.record("slotproof_clause", each.mark.clause)
            parts.append(f"{text.render(each.trace, path)}trace: {problem or path}")
            parts[-1] += "".join(f"\nalso seen as {one.id}: {folder.path(one)}" for one in others)
        return "\n\n".join(parts)


def findings(config: pytest.Config, engine: Engine) -> Findings:
    """What the session knows: the traces of the baseline are replayed first."""
    path: Path | None = config.getoption("--slotproof-baseline")
    baseline = load(path) if path is not None else Baseline()
    name = versioned(engine)
    gate = Gate(engine, name, baseline, Plan({}, seed=config.getoption("--slotproof-seed")))
    gate.replay()
    run_of: str | None = getattr(config, "workerinput", {}).get("testrunuid")
    shared = Path(tempfile.gettempdir()) / f"slotproof-{run_of}" if run_of else None
    return Findings(gate, shared)


def parts(config: pytest.Config) -> list[Part]:
    """The items that the options ask for. Raises :class:`pytest.UsageError`, one line."""
    option = config.getoption
    prefix = "--slotproof-"
    try:
        configs = chosen(option(prefix + "config") or CONFIGS)  # an item each: few have options
        examples = number(option(prefix + "examples"), 1, prefix + "examples")
        count = number(option(prefix + "parts"), 1, prefix + "parts")
        seed = number(option(prefix + "seed"), 0, prefix + "seed")
        profile = known_profile(option(prefix + "profile"))
        set_aside = known_clauses(option(prefix + "ignore"), prefix + "ignore")
        baseline_file = option(prefix + "baseline")
        if baseline_file is not None:
            load(baseline_file).check()
    except (UsageProblem, BadBaseline, BadConfig, BadTrace) as problem:
        raise pytest.UsageError(str(problem)) from None
    count = min(count, max(1, examples // (len(configs) * LEAST)))
    every = [(name, index) for index in range(count) for name in configs]
    whole = Plan({}, examples=examples, profile=profile, set_aside=set_aside)
    if baseline_file is not None:
        whole = replace(whole, distinct=None)
    engine, out, found = option(prefix + "engine"), option(prefix + "out"), []
    for (name, index), share in planned(whole, every).items():
        plan = replace(whole, configs={name: configs[name]}, examples=share, seed=seed + index)
        found.append(Part(engine, name, index + 1, count, plan, out))
    return found
