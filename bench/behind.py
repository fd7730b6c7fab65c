"""What is found behind the known bugs of an SGLang release, looked for in four ways.

    python bench/behind.py --engine sglang==0.5.23 [--way plain mends marks doors] [--seconds 480]

`plain`: an example ends at the first finding, known or not. `mends`: known bugs are repaired in the
driver (`--patch all`). `marks`: after a known finding the spec goes on from the engine's state, and
what is about the sessions and requests it was seen on is no finding. `doors`: commands that lead to
known findings are not sent. All four are the search of `slotproof gate`, with what
`docs/findings` has as the baseline; what is new goes to --out, one trace each. Only `mends` is in
the product; the other two are here to be compared with.
"""

from __future__ import annotations

import argparse
import json
import resource
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from slotproof.engines.registry import EngineSpec
from slotproof.lockstep.observation import Violation
from slotproof.lockstep.referee import Iteration, Referee, Setup
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CONFIGS, EngineConfig
from slotproof.reports.trace import Trace
from slotproof.search import baseline as baselines, campaign, examples
from slotproof.search.baseline import Baseline, Group
from slotproof.search.causes import AcceptedFindings, cause
from slotproof.search.findings import lead, mark
from slotproof.search.gate import Gate
from slotproof.search.machine import machine_for
from slotproof.search.plan import Plan
from slotproof.traces import itf
from slotproof.traces.record import rows_of

FINDINGS = Path(__file__).parents[1] / "docs" / "findings"
WAYS = ("plain", "mends", "marks", "doors")


def known_bugs() -> Baseline:
    """The groups of the newest release's baseline and the traces of the others, on any release."""
    listed = baselines.load(FINDINGS / "sglang-0.5.23.baseline.json")
    groups = [replace(each, engine="*") for each in listed.groups]
    there = {trace for group in groups for trace in group.traces}
    for path in sorted(FINDINGS.glob("sglang-0.5.1[38]-*.itf.json")):
        if path.name not in there:
            name = path.name.removesuffix(".itf.json")
            groups.append(Group(name, "see its page", traces=(path.name,)))
    return Baseline(tuple(groups), FINDINGS)


# Marks ------------------------------------------------------------------------------


class Marking(Referee):
    """Goes on after what is known, and marks whom it was seen on."""

    known = AcceptedFindings()
    blank: Trace
    met: ClassVar[Counter[str]] = Counter()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.marked: set[str] = set()
        self.broken: set[str] = set()
        """Clauses about no one in particular: what is lost stays lost."""

    def pass_over(self, violations: list[Violation]) -> list[Violation]:
        left = [each for each in super().pass_over(violations) if not self.covered(each)]
        if not left:
            return []
        log = self.log[-1]
        entry = Iteration(log.command, log.snapshots, left, [], log.judged + 1, log.observations)
        first = lead(left)
        found = mark(entry, first)
        trace = replace(
            self.blank, rows=rows_of([*self.log[:-1], entry]), violations=[first, *left]
        )
        if not self.known.recognises(cause(trace, found)):
            return left
        Marking.met[found.id] += 1
        for each in left:
            self.marked |= self.about(each)
            if not self.about(each):
                self.broken.add(each.clause)
        return []

    def about(self, violation: Violation) -> set[str]:
        """Sessions, and requests without one."""
        names = {violation.session, violation.rid, *(each.name for each in violation.owners)}
        requests = self.client.requests
        return {
            requests[name].session or name if name in requests else name for name in names if name
        }

    def covered(self, violation: Violation) -> bool:
        """Whether a mark says why."""
        about = self.about(violation)
        if about:
            return not about.isdisjoint(self.marked)
        acted = any(
            not self.marked.isdisjoint(filter(None, each[1:3]))
            for each in self.log[-1].observations[-1].snapshot.get("events", ())
        )
        return bool(self.marked) and (
            acted or violation.reporting or violation.clause in self.broken
        )


# Doors ------------------------------------------------------------------------------


def door(command: Command, referee: Referee) -> bool:
    """Whether known findings lie behind a command."""
    client, config = referee.client, referee.config
    name, sid = command["do"], command.get("session")
    live = {rid: each for rid, each in client.requests.items() if not each.answers}
    unread = [each.get("session") for each in client.unread]
    if name == "retract":
        return True
    if name == "abort":  # in the queue
        shown = referee.snapshot["requests"].get(command["rid"])
        return shown is None or shown["phase"] == "waiting"
    if name == "abort_all":
        return any(each["phase"] == "waiting" for each in referee.snapshot["requests"].values())
    if name != "submit":
        return False
    past = client.history.get(sid or "", [])
    room = sum(each.most for each in live.values())
    room += sum(len(each) for each in client.history.values() if isinstance(each, list))
    wanted = len(command["tokens"]) + command["max_new"]
    whole = wanted + (len(past) if isinstance(past, list) else 0)
    return (
        not command["tokens"]
        or (sid is not None and sid not in client.history)
        or sid in unread
        or any(each.session == sid for each in live.values() if sid)
        or whole + 8 > min(config.context_len, config.total_tokens)
        or room + wanted + 2 * config.page_size > config.total_tokens
    )


def avoiding(host: Any, offered: Any, config: EngineConfig) -> Any:
    """A machine that does not send them."""

    class Avoiding(machine_for(host, offered, config)):  # type: ignore[misc]
        def do(self, command: Command) -> None:
            if self.referee is None or not door(command, self.referee):
                super().do(command)

    return Avoiding


# -------------------------------------------------------------------------------------


def possible(way: str) -> dict[str, EngineConfig]:
    """Every turn of a configuration with drafts ends at a known finding."""
    return {name: each for name, each in CONFIGS.items() if way != "doors" or not each.draft}


def run(release: str, way: str, seconds: float, seed: int, out: Path) -> dict[str, Any]:
    mends = ("all",) if way == "mends" else ()
    spec = EngineSpec(release, step_timeout=120, start_timeout=900, mends=mends)
    plan = Plan(possible(way), examples=None, seconds=seconds, seed=seed, distinct=None)
    began = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    with closing(spec.open()) as engine:
        name = f"{engine.name} {engine.version}"
        gate = Gate(engine, name, known_bugs(), plan)
        gate.replay()
        Marking.known, Marking.met = gate.accepted, Counter()
        Marking.blank = Trace(
            name, release, engine.capabilities.profile, EngineConfig(), 0, [], [], False
        )
        if way == "marks":
            Setup.referee = lambda self, *args, **kwargs: Marking(
                args[0], self, *args[1:], **kwargs
            )  # type: ignore[method-assign]
        if way == "doors":
            examples.machine_for = avoiding
        outcome = campaign.run(engine, release, plan, accepted=gate.accepted)
        judged = gate.judge(outcome.findings)
    folder = out / f"{release.replace('==', '-')}-{way}"
    folder.mkdir(parents=True, exist_ok=True)
    for each in judged:
        itf.save(each.finding.trace, folder / f"{each.finding.mark.slug}.itf.json")
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_utime - began
    return {
        "engine": release,
        "way": way,
        "seconds": round(outcome.seconds),
        "cpu_seconds": round(own + children.ru_utime + children.ru_stime),
        "examples": outcome.examples,
        "commands": outcome.coverage.commands,
        "known": sorted(outcome.accepted),
        "passed": dict(Marking.met.most_common()),
        "judged": [
            {
                "id": each.finding.id,
                "new": each.new,
                "group": each.group.name if each.group else "",
                "why": each.why,
                "commands": len(each.finding.trace.rows),
                "minimal": each.finding.trace.minimal,
                "first": each.finding.first,
            }
            for each in judged
        ],
    }


def arguments() -> Iterator[tuple[str, str, argparse.Namespace]]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--engine", nargs="+", default=["sglang==0.5.18", "sglang==0.5.23"])
    parser.add_argument("--way", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--seconds", type=float, default=900.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("build/behind"))
    given = parser.parse_args()
    for engine in given.engine:
        for way in given.way:
            yield engine, way, given


def main() -> None:
    asked = list(arguments())
    if len(asked) > 1 and {"marks", "doors"} & {way for _, way, _ in asked}:
        raise SystemExit("one --engine and one --way at a time: they change the search")
    for engine, way, given in asked:
        print(json.dumps(run(engine, way, given.seconds, given.seed, given.out)), flush=True)


if __name__ == "__main__":
    main()
