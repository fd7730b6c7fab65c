"""Mutants of the reference engine × what finds them: how soon, how short, and who alone.

All oracles together are run with several seeds, for medians. Then each group of
:data:`~slotproof.matrices.finders.FINDERS` alone: on the trace that was
found, and where it has nothing to say of that, with a campaign of its own in the
configuration that showed the bug.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from statistics import median
from threading import Thread

from slotproof.engines.reference import InProcessEngine
from slotproof.lockstep.referee import play
from slotproof.matrices.finders import FINDERS
from slotproof.matrices.table import Cell, Row, Table
from slotproof.reports.trace import Trace
from slotproof.search import campaign
from slotproof.search.plan import Plan
from slotproof.search.schedule import planned
from slotproof.support import bounds, interrupts
from slotproof_engine.mutants import MUTANTS
from slotproof_model.bugs.museum import EXHIBITS
from slotproof_model.proofs.pool import Pool

SHRUNK = "of the trace, shrunk"
WHO = (
    "Who says nothing of the trace found has a search of its own, with the first seed and the "
    "examples of that configuration. "
    "A row without any of them: the engine crashes (INV-ALIVE), or its own check is what is "
    "wrong (INV-CHECKER); the clause says which."
)
PROOF = "transitions of the shortest counterexample of the spec with this bug"


@dataclass(frozen=True)
class SeedResult:
    """The result of one seed that finds a mutant."""

    clause: str
    commands: int
    """Sent up to the first violation."""
    seconds: float
    length: int
    """Commands of the trace, shrunk."""


@dataclass(frozen=True)
class Killed:
    """What is known of a mutant."""

    mutant: str
    found: tuple[SeedResult, ...] = ()
    """Per seed that finds it."""
    seeds: int = 1
    alone: dict[str, int] = field(default_factory=dict)
    """By group of oracles: commands of the shortest trace it finds alone; absent if none."""
    interrupted: bool = False
    out_of_time: bool = False
    """A seed that does not find it had no time for all its examples."""

    @property
    def missed(self) -> bool:
        """Whether a seed did not find it."""
        return len(self.found) < self.seeds

    @property
    def survives(self) -> bool:
        """Whether a seed did not find it that had all its examples."""
        return self.missed and not (self.out_of_time or self.interrupted)


def kill(name: str, plan: Plan, seeds: int) -> Killed:
    """Run the plan on a mutant with seeds from the plan's own upwards, then each group alone."""
    engine = InProcessEngine(name)
    found: list[SeedResult] = []
    trace: Trace | None = None
    cut = False
    for seed in range(plan.seed, plan.seed + seeds):
        outcome = campaign.run(engine, f"reference:{name}", replace(plan, seed=seed, distinct=1))
        if outcome.trace is not None and outcome.first is not None:
            clause, (commands, seconds) = outcome.trace.violations[0].clause, outcome.first
            found.append(SeedResult(clause, commands, seconds, len(outcome.trace.rows)))
            trace = trace or outcome.trace
        else:
            cut |= outcome.out_of_time
        if outcome.interrupted:
            return Killed(name, tuple(found), seeds, interrupted=True)
    alone: dict[str, int] = {}
    if trace is not None:
        lengths = {group: _alone(engine, plan, group, trace) for group in FINDERS}
        alone = {group: length for group, length in lengths.items() if length}
    return Killed(name, tuple(found), seeds, alone, out_of_time=cut)


def _alone(engine: InProcessEngine, plan: Plan, group: str, trace: Trace) -> int | None:
    """The length of a trace that the group alone finds. A crash speaks for nobody."""
    oracles = FINDERS[group]
    setup = replace(trace.setup, set_aside=(), oracles=oracles)
    log = play(engine, setup, trace.commands).log
    if any(each.oracle for each in log[-1].violations):
        return len(log)
    there = {trace.config_name: trace.config}
    share = planned(plan, list(plan.configs)).get(trace.config_name)
    narrow = replace(plan, configs=there, examples=share, distinct=1, oracles=oracles)
    outcome = campaign.run(engine, trace.spec, narrow)
    interrupts.check()  # that it found nothing may be because of that
    own = outcome.trace
    return len(own.rows) if own and any(each.oracle for each in own.violations) else None


def kills(plan: Plan, seeds: int, jobs: int) -> Iterator[Killed]:
    """One mutant after the other, or some at once; always in the same order."""
    if jobs == 1:
        for name in MUTANTS:
            yield kill(name, plan, seeds)
        return
    context = get_context("spawn")
    over = context.Event()
    processes = Pool(jobs, context, _begin, (over,))
    try:
        yield from processes.map(_kill, MUTANTS, [plan] * len(MUTANTS), [seeds] * len(MUTANTS))
    finally:
        over.set()
        processes.end(bounds.PARTING_SECONDS)


def _begin(over: Event) -> None:
    """In a process of its own: the parent tells when it is over, no signal does."""
    _Mine.over = over
    Thread(target=_end, args=(over,), daemon=True).start()


def _end(over: Event) -> None:
    over.wait()
    interrupts.arrive()


class _Mine:
    """What a process has."""

    over: Event


def _kill(name: str, plan: Plan, seeds: int) -> Killed:
    if _Mine.over.is_set():
        return Killed(name, seeds=seeds, interrupted=True)
    with interrupts.noted():
        return kill(name, plan, seeds)


def run(
    plan: Plan,
    seeds: int,
    jobs: int,
    tell: Callable[[str, int, int], None],
    write: Callable[[Table], None],
) -> list[Killed]:
    """Kill every mutant; ``write`` gets the table after each. Ctrl-C ends it with what there is."""
    done: list[Killed] = []
    with suppress(KeyboardInterrupt), interrupts.noted():
        for killed in kills(plan, seeds, jobs):
            done.append(killed)
            tell(killed.mutant, len(done), len(MUTANTS))
            write(table(done, plan, seeds))
            if killed.interrupted:
                break
    return done


def table(done: list[Killed], plan: Plan, seeds: int) -> Table:
    """What is known so far."""
    dead = sum(1 for each in done if not each.missed)
    missed = [each.mutant for each in done if each.found and "equation" not in each.alone]
    medians = f". Medians over {seeds} seeds" if seeds > 1 else ""
    notes = [
        f"{dead} of {len(MUTANTS)} mutants are killed with every seed.",
        f"The equation alone misses {len(missed)}: {', '.join(missed)}." if missed else "",
        f"Sent, seconds: commands and time up to the first violation. Commands: {SHRUNK}{medians}.",
        f"The other columns: who alone finds it, in how many commands. Proof: {PROOF}.",
        f"Seeds from {plan.seed}, at most {plan.examples} examples for each mutant and seed. {WHO}",
    ]
    columns = ["clause", "sent", "seconds", "commands", *FINDERS, "proof"]
    rows = [Row(each.mutant, MUTANTS[each.mutant].sentence, _cells(each)) for each in done]
    title = "Mutants of the reference engine × what finds them"
    return Table(title, "mutant", columns, rows, [note for note in notes if note])


def _cells(killed: Killed) -> list[Cell]:
    if killed.found and not killed.missed:
        verdict = Cell(killed.found[0].clause, "good")
    else:
        text = f"{len(killed.found)} of {killed.seeds} seeds" if killed.found else "survives"
        verdict = Cell(text, "bad") if killed.survives else Cell("ended early", "odd")
    figures = [Cell()] * 3
    if killed.found:
        figures = [
            Cell(f"{median(each.commands for each in killed.found):.0f}"),
            Cell(f"{median(each.seconds for each in killed.found):.1f}"),
            Cell(f"{median(each.length for each in killed.found):.0f}"),
        ]
    alone = [
        Cell(str(killed.alone[group]), "good") if group in killed.alone else Cell()
        for group in FINDERS
    ]
    exhibit = EXHIBITS.get(killed.mutant)
    proof = Cell(str(exhibit.depth), "good") if exhibit else Cell()
    return [verdict, *figures, *alone, proof]
