"""Summary of a run: as text, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from slotproof.engines.base import Capabilities
from slotproof.lockstep.coverage import Coverage, total
from slotproof.lockstep.reached import drawable
from slotproof.lockstep.referee import adapted
from slotproof.protocol.build import Build
from slotproof.protocol.config import EngineConfig
from slotproof.reports.trace import Trace
from slotproof.search.array import NAMES
from slotproof.search.campaign import Outcome
from slotproof.search.plan import EXAMPLES, FLOOR, Plan
from slotproof.support.statuses import CONFORMS, FOUND, INCONCLUSIVE
from slotproof.support.terminal import labelled
from slotproof_model.bugs.museum import EXHIBITS
from slotproof_model.spec.invariants import INVARIANTS, ON_ENGINES
from slotproof_model.spec.profiles import Choices
from slotproof_model.spec.transitions import TRANSITIONS

MARGIN = 1.1
"""Safety factor on the estimated seconds of a search that would give a verdict."""
NAMED = 3
"""Maximum number of configurations or pairs named in a message."""
_DRAWN = {
    "phases": "pairs of a command and the phase of its target",
    "rare pairs": "pairs of rare values in consecutive turns",
}
"""Kinds of pairs that are counted when a run draws them."""

_NEEDS: dict[object, tuple[str, Callable[[EngineConfig, Choices], bool]]] = {
    ("config.swa", True): ("a sliding window", lambda config, _: config.window > 0),
    "chunked prefill": ("chunked prefill", lambda config, _: config.chunk > 0),
    "a retraction that wipes": (
        "retract=wipe with overlap",
        lambda _, of: of["overlap"] and not of["retract_keeps"],
    ),
    ("config.overlap", True): ("overlap=true", lambda _, of: of["overlap"]),
    ("config.overlap", False): ("overlap=false", lambda _, of: not of["overlap"]),
    ("config.retract_keeps", True): ("retract=keep", lambda _, of: of["retract_keeps"]),
    ("config.retract_keeps", False): ("retract=wipe", lambda _, of: not of["retract_keeps"]),
}
"""Description and test of each condition that a transition needs. A test gets a configuration and
the choices of the engine's profile in this configuration."""


def impossible(
    transitions: frozenset[str], configs: Collection[EngineConfig], profile: str
) -> dict[str, str]:
    """Return the transitions that no configuration of the plan allows under this profile, each with
    the condition that is not met."""
    choices = [(config, adapted(profile, config).choices) for config in configs]
    return {
        name: words
        for need, (words, possible) in _NEEDS.items()
        for name, transition in TRANSITIONS.items()
        if name in transitions
        and need in (*transition.choices.items(), transition.needs)
        and not any(possible(config, of) for config, of in choices)
    }


def summary(outcome: Outcome, plan: Plan, capabilities: Capabilities) -> dict[str, Any]:
    """Return the summary of a run, as JSON. ``status`` is the exit status."""
    coverage = outcome.coverage
    configs = {name: plan.configs[name] for name in outcome.configs}
    able = [config for config in plan.configs.values() if capabilities.refuses(config) is None]
    # A configuration that got no time counts, too: its transitions were not reached.
    reached = _reached(outcome, coverage, capabilities, able)
    never = reached["transitions"]["never"]
    unchecked = sorted(invariant for invariant in ON_ENGINES if not coverage.checked[invariant])
    lacks = (_cut(outcome), _too_little(outcome, plan), _unmet(outcome, configs.values(), never))
    unearned = next(chain(*lacks), None)
    status = INCONCLUSIVE if never or unearned else CONFORMS
    return {
        "status": FOUND if outcome.trace is not None else status,
        "engine": outcome.engine,
        "build": None if outcome.build is None else outcome.build.to_json(),
        "profile": outcome.profile,
        "patches": list(capabilities.patches),
        "seed": plan.seed,
        "configurations": outcome.configs,
        "array": _array(outcome, plan),
        "skipped": outcome.skipped,
        "examples": outcome.examples,
        "timed": plan.examples is None,
        "planned": sum(outcome.planned.values()) if outcome.planned else None,
        "examples_of": {
            name: {"planned": outcome.planned.get(name), "run": outcome.run[name]}
            for name in outcome.planned or outcome.configs
        },
        "commands": coverage.commands,
        "iterations": coverage.iterations,
        "seconds": round(outcome.seconds, 2),
        "commands_per_second": round(coverage.commands / max(outcome.seconds, 1e-9)),
        "up_to_the_first": outcome.first
        and dict(zip(("commands", "examples"), outcome.first, strict=False)),
        "replays": outcome.replays,
        "not_afresh": (outcome.trace.not_afresh or None) if outcome.trace else None,
        "interrupted": outcome.interrupted,
        "out_of_time": outcome.out_of_time,
        "unearned": unearned,
        "unusable": outcome.unusable or None,
        **reached,
        "clients": {of: dict(n.most_common()) for of, n in sorted(coverage.reached.items())},
        "drawn": _drawn(coverage, capabilities, able),
        "modes": {
            mode: _mode(outcome, capabilities, {k: v for k, v in configs.items() if v.mode == mode})
            for mode in dict.fromkeys(config.mode for config in configs.values())
        },
        "invariants": {
            "checked": sorted(set(ON_ENGINES) - set(unchecked)),
            "not_checked": unchecked,
        },
        "ignored": dict(sorted(coverage.ignored.items())),
        "by_choice": dict(sorted(coverage.by_choice.items())),
        "not_observed": capabilities.unseen,
        "violated": [
            violation.to_json() for violation in (outcome.trace.violations if outcome.trace else ())
        ],
    }


def _array(outcome: Outcome, plan: Plan) -> dict[str, Any] | None:
    """Return the covered share of pairs and triples of levels, and the features with one level."""
    if plan.array is None:
        return None
    ran = [name for name in outcome.configs if outcome.run[name]]
    shares = {name: plan.array.share(size, ran) for size, name in NAMES.items()}
    return {**{name: [*share] for name, share in shares.items()}, "fixed": plan.array.fixed}


def _configurations(report: dict[str, Any]) -> Iterator[str]:
    names, array = report["configurations"], report["array"]
    if not array:
        yield labelled("configurations", ", ".join(names))
        return
    shares = [f"{had} of {all_} {name}" for name in NAMES.values() for had, all_ in [array[name]]]
    yield labelled("configurations", f"{len(names)}, with {', '.join(shares)} of feature levels")
    if fixed := [f"{name} {level}" for name, level in array["fixed"].items() if level]:
        yield labelled("", f"the engine offers only {', '.join(fixed)}")
    if never := [name for name, level in array["fixed"].items() if not level]:
        yield labelled("", f"the engine does not offer {', '.join(never)}")


def _reached(
    outcome: Outcome,
    coverage: Coverage,
    capabilities: Capabilities,
    configs: Collection[EngineConfig],
) -> dict[str, Any]:
    """Return the transitions and guard outcomes that the run reached or could have reached."""
    excluded = impossible(capabilities.seen_to_make, configs, outcome.profile)
    wanted = capabilities.seen_to_make - excluded.keys()
    never = sorted(wanted - coverage.transitions.keys())
    seen, possible, one_way = coverage.guards(wanted)
    return {
        "transitions": {
            "offered": len(wanted),
            "reached": len(wanted) - len(never),
            "counts": dict(sorted(coverage.transitions.items())),
            "decoding": dict(sorted(coverage.decoding.items())),
            "never": never,
            "impossible": excluded,
        },
        "guards": {"seen": seen, "of": possible, "one_way": one_way},
    }


def _drawn(
    coverage: Coverage, capabilities: Capabilities, configs: Collection[EngineConfig]
) -> dict[str, Any]:
    """Return the drawn pairs, and those that could have been drawn: commands with phases of their
    targets, and rare values in consecutive turns."""
    phases, pairs = drawable(capabilities.commands, configs)
    if "closed" in capabilities.answers:  # An abort ends the session: no turn comes after it.
        pairs = {name: pair for name, pair in pairs.items() if pair[0] != "aborted"}
    drawn = {}
    for kind, names in (("phases", phases), ("rare pairs", pairs)):
        never = sorted(names.keys() - coverage.reached[kind].keys())
        drawn[kind] = {"reached": len(names) - len(never), "of": len(names), "never": never}
    return drawn


WANTED = {
    ("finishes", "length"): "no request ended by length",
    ("finishes", "stop"): "no request ended by a stop token",
    ("aborted", "waiting"): "no request was aborted while waiting",
    ("aborted", "decoding"): "no request was aborted while decoding",
}
"""Events needed before a run may report conformance. Each has a message for its absence."""


def idle(coverage: Coverage, configs: Iterable[EngineConfig]) -> Iterator[str]:
    """Yield a message for each server option of the configurations if it never took effect."""
    for name in (name for config in configs for name in config.options):
        if not coverage.reached["options"][name]:
            yield f"option {name} of a configuration never took effect"


def _mode(
    outcome: Outcome, capabilities: Capabilities, configs: dict[str, EngineConfig]
) -> dict[str, Any]:
    """Return the coverage of the configurations of one mode."""
    coverage = total(outcome.covered[name] for name in configs)
    reached = _reached(outcome, coverage, capabilities, configs.values())
    return {"configurations": list(configs), "commands": coverage.commands, **reached}


def _cut(outcome: Outcome) -> Iterator[str]:
    """Yield the reasons for an early end of a search."""
    if outcome.interrupted:
        yield "interrupted"
    if outcome.unusable:
        yield "the engine could not continue"
    if outcome.out_of_time:
        yield "out of time"


def few(outcome: Outcome, plan: Plan) -> list[str]:
    """Return configurations with too few examples for a verdict.

    The list is empty if the plan has a fixed number of examples and no floor.
    """
    if plan.examples is not None and not plan.floor:
        return []
    return [name for name in outcome.configs if outcome.run[name] < FLOOR]


def _too_little(outcome: Outcome, plan: Plan) -> Iterator[str]:
    """Yield a message that names the configurations with too few examples."""
    if names := few(outcome, plan):
        words = ", ".join(names) if len(names) <= NAMED else f"{len(names)} configurations"
        yield f"too little time, under {FLOOR} examples in {words}"


def _unmet(
    outcome: Outcome, configs: Iterable[EngineConfig], never: Collection[str]
) -> Iterator[str]:
    """Yield a message for each event that every run needs and this run lacks. If a transition was
    ``never`` reached, yield only the message about the prefix cache."""
    reached = outcome.coverage.reached
    # A prefix cache that never has a hit violates no clause.
    if reached["matches"]["nothing"] and not reached["matches"]["found"]:
        yield "no request matched a cached prefix: the cache may never be used"
    if not never:
        yield from (why for (of, what), why in WANTED.items() if not reached[of][what])
        yield from idle(outcome.coverage, configs)


def missing(
    searches: Mapping[str, tuple[Outcome, Mapping[str, Any]]], plan: Plan, share: float = 1.0
) -> dict[str, Any] | None:
    """Return the budget needed for a verdict on the configurations that all builds ran, or None if
    nothing is missing. ``searches``: outcome and summary by build. ``share``: share of the user's
    budget spent on these searches.

    The first occurrence of a transition can't be predicted. If some transition was never reached,
    the budget is at least the examples of a default run, and twice the examples run so far.
    """
    shared = set.intersection(*(set(outcome.configs) for outcome, _ in searches.values()))
    if not shared and all(outcome.configs for outcome, _ in searches.values()):
        text = "the builds can run no configuration in common: name one with --config"
        return {"builds": [], "seconds": None, "examples": None, "text": text}
    builds, seconds, wanted, sure = [], 0.0, FLOOR * len(shared), "is"
    for build, (outcome, searched) in searches.items():
        names = [name for name in few(outcome, plan) if name in shared]
        never = searched["transitions"]["never"]
        configs = [plan.configs[name] for name in outcome.configs]
        why = next(chain(_cut(outcome), _unmet(outcome, configs, never)), None)
        rest = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        count = f"had under {FLOOR} examples in {len(names)} of {len(shared)} configurations"
        parts = [f"{count} ({', '.join(names[:NAMED])}{rest})"] if names else []
        parts += [f"never reached {', '.join(never)}"] if never else []
        parts += [f"is not conclusive ({why})"] if why else []
        if not parts:
            continue
        run, spent = outcome.run, outcome.spent
        mean = spent.total() / max(1, outcome.examples)
        cost = [(FLOOR - run[n]) * spent[n] / run[n] if run[n] else FLOOR * mean for n in names]
        times = 1 + sum(cost) / max(1, spent.total())
        if never or why:
            wanted, sure = max(wanted, EXAMPLES, 2 * outcome.examples), "may be"
            times = max(times, wanted / max(1, outcome.examples))
        seconds = max(seconds, math.ceil(times * MARGIN * outcome.seconds / 10) * 10)
        few_of = {name: run[name] for name in names}
        text = f"{build} {' and '.join(parts)}"
        builds.append({"build": build, "few": few_of, "never": never, "why": why, "text": text})
    if not builds:
        return None
    seconds, wanted = math.ceil(seconds / share), math.ceil(wanted / share)
    limit = f" --seconds {seconds}" if plan.seconds is not None else f" (about {seconds} s)"
    options = f"--examples {wanted}{limit}" if plan.examples is not None else limit.strip()
    text = "; ".join(build["text"] for build in builds)
    return {
        "builds": builds,
        "seconds": seconds,
        "examples": wanted if plan.examples is not None else None,
        "text": f"{text}; {options} {sure} enough",
    }


def _examples(report: dict[str, Any]) -> Iterator[str]:
    """Yield lines with the number of examples run and planned in each configuration.

    Hypothesis may run a few more examples than planned.
    """
    counts = report["examples_of"]
    if report["planned"] is None:  # only the time is limited
        runs = ", ".join(f"{name} {count['run']}" for name, count in counts.items())
        yield labelled("examples", runs)
        return
    groups: dict[str, list[str]] = {}
    for name, count in counts.items():
        if count["run"] < count["planned"]:
            groups.setdefault(f"{count['run']} of {count['planned']}", []).append(name)
    number = " or ".join(map(str, sorted({count["planned"] for count in counts.values()})))
    complete = f"{report['examples']}: all planned, {number} in each configuration"
    partial = f"{report['examples']} of {report['planned']} planned"
    yield labelled("examples", partial if groups else complete)
    for text, names in groups.items():
        yield labelled("", f"{text}: {', '.join(names)}")


def text(report: dict[str, Any]) -> Iterator[str]:
    """Yield the summary as text, line by line."""
    transitions, guards = report["transitions"], report["guards"]
    yield labelled("engine", f"{report['engine']} (profile {report['profile']})")
    if report["build"] and report["build"]["label"]:
        yield labelled("", f"the build is {Build(**report['build']).described}")
    if report["patches"]:
        yield labelled("patched", ", ".join(report["patches"]))
    yield from _configurations(report)
    for name, reason in report["skipped"].items():
        yield labelled("", f"{name} left out: {reason}")
    yield labelled(
        "commands",
        f"{report['commands']} in {report['examples']} examples, "
        f"{report['iterations']} iterations; {report['commands_per_second']} per second",
    )
    if first := report["up_to_the_first"]:
        examples = f"{first['examples']} examples up to the first finding"
        yield labelled("", f"{first['commands']} in {examples}")
    if report["replays"]:
        yield labelled("", f"{report['replays']} more replays for shrinking")
    yield from _examples(report)
    if report["unusable"]:
        yield labelled("ended early", report["unusable"])
    some = f"{transitions['reached']} of {transitions['offered']} reached"
    none = "the engine reports no transitions"
    yield labelled("transitions", some if transitions["offered"] else none)
    if transitions["never"]:
        yield labelled("", f"never: {', '.join(transitions['never'])}")
    for name, needs in transitions["impossible"].items():
        yield labelled("", f"{name} needs {needs}, absent from all configurations")
    if len(report["modes"]) > 1 and transitions["offered"]:
        yield from _modes(report["modes"], transitions["never"])
    if guards["of"]:
        yield labelled("guard outcomes", f"{guards['seen']} of {guards['of']} seen")
    for label, kind in zip(("drawn", ""), _DRAWN, strict=True):
        part = report["drawn"][kind]
        rest = len(part["never"]) - NAMED
        names = [*part["never"][:NAMED], *([f"{rest} more"] if rest > 0 else [])]
        yield labelled(label, f"{part['reached']} of {part['of']} {_DRAWN[kind]}")
        if names:
            yield labelled("", f"never: {'; '.join(names)}")
    yield from _counted("requests ended", report["clients"].get("finishes", {}), "by ")
    yield from _counted("at work", report["clients"].get("options", {}))
    yield from checked(report["invariants"])
    yield from left_out(report["ignored"], report["not_observed"], report["by_choice"])
    if report.get("patches"):
        yield labelled("patches", report["patches"])
    if report.get("driver"):
        yield labelled("driver", report["driver"])


def _counted(label: str, counts: Mapping[str, int], by: str = "") -> Iterator[str]:
    """Yield a line of counts: how requests ended, or how often options took effect."""
    if counts:
        yield labelled(label, ", ".join(f"{count} {by}{what}" for what, count in counts.items()))


def _modes(modes: Mapping[str, Any], anyway: Collection[str]) -> Iterator[str]:
    """Yield each mode's coverage, and the transitions that only another mode reached."""
    for mode, part in modes.items():
        seen, guards = part["transitions"], part["guards"]
        never = [name for name in seen["never"] if name not in anyway]
        yield labelled(
            "",
            f"{mode}: {seen['reached']} of {seen['offered']}, guard outcomes {guards['seen']} of "
            f"{guards['of']}{'; never: ' if never else ''}{', '.join(never)}",
        )


def checked(invariants: Mapping[str, list[str]]) -> Iterator[str]:
    """Yield the number of invariants checked, and the names of invariants never checked."""
    yield labelled("invariants", f"{len(invariants['checked'])} checked")
    if invariants["not_checked"]:
        yield labelled("", f"not checked: {', '.join(invariants['not_checked'])}")


def left_out(
    ignored: Mapping[str, int], not_observed: Mapping[str, str], by_choice: Mapping[str, int]
) -> Iterator[str]:
    """Yield lines on the engine's documented choices, on ignored clauses, and on hidden state."""
    for what, times in by_choice.items():
        yield labelled("not judged", f"{what}, {times} times")
    for clause, times in ignored.items():
        yield labelled("ignored", f"{clause}, {times} times")
    for what, why in not_observed.items():
        yield labelled("not observed", f"{what}: {why}")


def seeds(report: Mapping[str, Any]) -> str:
    """Return the seed of a run as text, or the seeds of the runs in a report.

    >>> seeds({"seed": 3}), seeds({"seed": 0, "seeds": [0, 1]})
    ('seed 3', 'seeds 0, 1')
    """
    every = report.get("seeds", [report["seed"]])
    return f"seed{'s' if len(every) > 1 else ''} {', '.join(map(str, every))}"


def verdict(report: dict[str, Any]) -> str:
    """Return the verdict, the last line of a report."""
    if report["status"] == CONFORMS:
        return f"conforms: nothing found in {report['examples']} examples ({seeds(report)})"
    if report["status"] == INCONCLUSIVE:
        if report["unearned"]:
            return f"inconclusive: {report['unearned']}, nothing found so far"
        return "inconclusive: nothing found, but not every offered transition was reached"
    again = f", {report['not_afresh']}" if report["not_afresh"] else ""
    return f"counterexample: {report['violated'][0]['clause']}{again}"


def compare(trace: Trace) -> dict[str, int | str] | None:
    """Compare a trace's length with the spec's shortest counterexample, or return None.

    ``prove --mutant`` proves the length of the shortest counterexample with one session, for the
    spec with the same bug. A trace with this number of transitions is minimal. Transitions are
    counted, not commands: an engine takes several transitions per iteration. The comparison needs
    the spec's bug at this page size, one session, and a violated clause with a formula.
    """
    engine, _, name = trace.spec.partition(":")
    exhibit = EXHIBITS.get(name) if engine == "reference" else None
    taken = sum(len(row.transitions) for row in trace.rows)
    clients = {row.command.get("session") for row in trace.rows if row.command["do"] == "submit"}
    if (
        exhibit is None
        or exhibit.page_size != trace.config.page_size
        or len(clients) != 1
        or not any(INVARIANTS[violation.invariant].conjuncts for violation in trace.violations)
        or taken < exhibit.depth
    ):
        return None
    need = exhibit.depth
    text = f"{taken} transitions; the spec with this bug needs {need}"
    text += f" (slotproof prove --mutant {name})"
    if taken == need:
        text = f"{taken} transitions, as few as the spec with this bug needs: no trace is shorter"
    return {"transitions": taken, "spec": need, "text": text}
