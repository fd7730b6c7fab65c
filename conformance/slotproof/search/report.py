"""What a run says at the end: for people, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from slotproof.engines.base import Capabilities
from slotproof.lockstep.coverage import Coverage, total
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
from slotproof_model.spec.profiles import Choices, profile_named
from slotproof_model.spec.transitions import TRANSITIONS

MARGIN = 1.1
"""By how much an estimate of seconds exceeds the measured rate."""
NAMED = 3
"""Configurations that a line names; more are counted."""

_NEEDS: dict[object, tuple[str, Callable[[EngineConfig, Choices], bool]]] = {
    ("config.swa", True): ("a sliding window", lambda config, _: config.window > 0),
    "chunked prefill": ("chunked prefill", lambda config, _: config.chunk > 0),
    ("config.overlap", True): ("overlap=true", lambda config, of: config.overlap or of["overlap"]),
    ("config.overlap", False): (
        "overlap=false",
        lambda config, of: not (config.overlap or of["overlap"]),
    ),
    ("config.retract_keeps", True): (
        "retract=keep",
        lambda config, of: config.retract == "keep" and of["retract_keeps"],
    ),
    ("config.retract_keeps", False): (
        "retract=wipe",
        lambda config, of: config.retract == "wipe" or not of["retract_keeps"],
    ),
}
"""By what a transition can't do without: in words, and whether a configuration has it, or the
engine's profile whatever the configuration says."""


def impossible(
    transitions: frozenset[str], configs: Collection[EngineConfig], profile: str
) -> dict[str, str]:
    """Transitions that no configuration of the plan allows an engine of that profile, and what they
    need."""
    of = profile_named(profile).choices
    return {
        name: words
        for need, (words, possible) in _NEEDS.items()
        for name, each in TRANSITIONS.items()
        if name in transitions
        and need in (*each.choices.items(), each.needs)
        and not any(possible(config, of) for config in configs)
    }


def summary(outcome: Outcome, plan: Plan, capabilities: Capabilities) -> dict[str, Any]:
    """Everything a run has to say, as JSON. ``status`` is the exit status."""
    coverage = outcome.coverage
    configs = {name: plan.configs[name] for name in outcome.configs}
    able = [each for each in plan.configs.values() if capabilities.refuses(each) is None]
    reached = _reached(outcome, coverage, capabilities, able)  # also those not reached in time
    never = reached["transitions"]["never"]
    unchecked = sorted(invariant for invariant in ON_ENGINES if not coverage.checked[invariant])
    missing = chain(
        _cut(outcome), _too_little(outcome, plan), _unmet(outcome, configs.values(), never)
    )
    unearned = next(missing, None)
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
        "clients": clients(coverage),
        "modes": {
            mode: _mode(outcome, capabilities, {k: v for k, v in configs.items() if v.mode == mode})
            for mode in dict.fromkeys(each.mode for each in configs.values())
        },
        "invariants": {
            "checked": sorted(set(ON_ENGINES) - set(unchecked)),
            "not_checked": unchecked,
        },
        "ignored": dict(sorted(coverage.ignored.items())),
        "by_choice": dict(sorted(coverage.by_choice.items())),
        "not_observed": capabilities.unseen,
        "violated": [
            each.to_json() for each in (outcome.trace.violations if outcome.trace else ())
        ],
    }


def _array(outcome: Outcome, plan: Plan) -> dict[str, Any] | None:
    """The share of pairs and triples of levels that were searched, and features with one level."""
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
    fixed = [f"{name} {level}" for name, level in array["fixed"].items() if level]
    if fixed:
        yield labelled("", f"the engine offers only {', '.join(fixed)}")
    never = [name for name, level in array["fixed"].items() if not level]
    if never:
        yield labelled("", f"the engine does not offer {', '.join(never)}")


def _reached(
    outcome: Outcome,
    coverage: Coverage,
    capabilities: Capabilities,
    configs: Collection[EngineConfig],
) -> dict[str, Any]:
    """Of what these configurations allow: transitions and guard outcomes that were seen."""
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


WANTED = {
    ("finishes", "length"): "no request ended by length",
    ("finishes", "stop"): "no request ended by a stop token",
    ("aborted", "waiting"): "no request was aborted while it waited",
    ("aborted", "decoding"): "no request was aborted while it decoded",
}
"""What has to happen to clients of any engine before a run says that nothing is wrong."""


def clients(coverage: Coverage) -> dict[str, dict[str, int]]:
    """What clients sent and met, the most frequent first; and which of two transitions followed
    the other on one session."""
    return {what: dict(counts.most_common()) for what, counts in sorted(coverage.reached.items())}


def idle(coverage: Coverage, configs: Iterable[EngineConfig]) -> Iterator[str]:
    """Which option of a server that they have was never at work."""
    for name in (name for config in configs for name in config.options):
        if not coverage.reached["options"][name]:
            yield f"{name} of the configuration was never at work"


def _mode(
    outcome: Outcome, capabilities: Capabilities, configs: dict[str, EngineConfig]
) -> dict[str, Any]:
    """What was reached in the configurations of one mode."""
    coverage = total(outcome.covered[name] for name in configs)
    reached = _reached(outcome, coverage, capabilities, configs.values())
    return {"configurations": list(configs), "commands": coverage.commands, **reached}


def _cut(outcome: Outcome) -> Iterator[str]:
    """Why a search ended early."""
    if outcome.interrupted:
        yield "interrupted"
    if outcome.unusable:
        yield "the engine could not go on"
    if outcome.out_of_time:
        yield "out of time"


def few(outcome: Outcome, plan: Plan) -> list[str]:
    """Configurations that had too few examples for a verdict.

    With a number of examples all of them are enough, unless the plan has a floor.
    """
    if plan.examples is not None and not plan.floor:
        return []
    return [name for name in outcome.configs if outcome.run[name] < FLOOR]


def _too_little(outcome: Outcome, plan: Plan) -> Iterator[str]:
    """Which configurations had too few examples, where the time was too short for more."""
    if names := few(outcome, plan):
        words = ", ".join(names) if len(names) <= NAMED else f"{len(names)} configurations"
        yield f"too little time, under {FLOOR} examples of {words}"


def _unmet(
    outcome: Outcome, configs: Iterable[EngineConfig], never: Collection[str]
) -> Iterator[str]:
    """What has to happen in any search, and did not. That some transition was ``never`` reached is
    told beside it."""
    reached = outcome.coverage.reached
    # A prefix cache that is never of use breaks no rule.
    if reached["matches"]["nothing"] and not reached["matches"]["found"]:
        yield "no match found a prefix: the cache may never be used"
    if not never:
        yield from (why for (of, what), why in WANTED.items() if not reached[of][what])
        yield from idle(outcome.coverage, configs)


def missing(
    searches: Mapping[str, tuple[Outcome, Mapping[str, Any]]], plan: Plan, share: float = 1.0
) -> dict[str, Any] | None:
    """Return what searches of builds, each with its summary, lack for a verdict on the
    configurations that they share, and what would be enough; ``None`` if it is nothing. They had
    a ``share`` of what the user gave.

    No rate says when a transition is reached. Then it is the examples of a plain run that may be
    enough, or twice as many as there were.
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
        cost = [
            (FLOOR - run[name]) * spent[name] / run[name] if run[name] else FLOOR * mean
            for name in names
        ]
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
    text = "; ".join(each["text"] for each in builds)
    return {
        "builds": builds,
        "seconds": seconds,
        "examples": wanted if plan.examples is not None else None,
        "text": f"{text}; {options} {sure} enough",
    }


def _examples(report: dict[str, Any]) -> Iterator[str]:
    """How many examples each configuration had, of how many that were planned for it.

    Hypothesis may run a few more than it is asked for.
    """
    counts = report["examples_of"]
    if report["planned"] is None:  # the time is the plan
        each = ", ".join(f"{name} {count['run']}" for name, count in counts.items())
        yield labelled("examples", each)
        return
    groups: dict[str, list[str]] = {}
    for name, count in counts.items():
        if count["run"] < count["planned"]:
            groups.setdefault(f"{count['run']} of {count['planned']}", []).append(name)
    each = " or ".join(map(str, sorted({count["planned"] for count in counts.values()})))
    all_of_them = f"all that were planned, {each} in each configuration"
    some = f"{report['examples']} of {report['planned']} that were planned"
    yield labelled("examples", some if groups else all_of_them)
    for text, names in groups.items():
        yield labelled("", f"{text}: {', '.join(names)}")


def _first(report: dict[str, Any]) -> Iterator[str]:
    """How much of that was needed for the first finding, and what shrinking took beside it."""
    if first := report["up_to_the_first"]:
        yield labelled(
            "", f"{first['commands']} in {first['examples']} examples up to the first finding"
        )
    if report["replays"]:
        yield labelled("", f"{report['replays']} replays for shrinking beside these")


def text(report: dict[str, Any]) -> Iterator[str]:
    """The summary for people, line by line."""
    transitions, guards = report["transitions"], report["guards"]
    yield labelled("engine", f"{report['engine']} (profile {report['profile']})")
    if report["build"] and report["build"]["label"]:
        yield labelled("", f"it is {Build(**report['build']).described}")
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
    yield from _first(report)
    yield from _examples(report)
    if report["unusable"]:
        yield labelled("ended early", report["unusable"])
    some = f"{transitions['reached']} of {transitions['offered']} reached"
    none = "the engine says of none that it can be seen"
    yield labelled("transitions", some if transitions["offered"] else none)
    if transitions["never"]:
        yield labelled("", f"never: {', '.join(transitions['never'])}")
    for name, needs in transitions["impossible"].items():
        yield labelled("", f"{name} needs {needs}, which no configuration here has")
    if len(report["modes"]) > 1 and transitions["offered"]:
        yield from _modes(report["modes"], transitions["never"])
    if guards["of"]:
        yield labelled("guard outcomes", f"{guards['seen']} of {guards['of']} seen")
    yield from _counted("requests ended", report["clients"].get("finishes", {}), "by ")
    yield from _counted("at work", report["clients"].get("options", {}))
    yield from checked(report["invariants"])
    yield from left_out(report["ignored"], report["not_observed"], report["by_choice"])
    if report.get("patches"):
        yield labelled("patches", report["patches"])
    if report.get("driver"):
        yield labelled("driver", report["driver"])


def _counted(label: str, counts: Mapping[str, int], by: str = "") -> Iterator[str]:
    """How requests ended, which options of a server were at work; how often."""
    if counts:
        yield labelled(label, ", ".join(f"{count} {by}{what}" for what, count in counts.items()))


def _modes(modes: Mapping[str, Any], anyway: Collection[str]) -> Iterator[str]:
    """Each mode, and what no configuration of it reached that another one did."""
    for mode, each in modes.items():
        there, guards = each["transitions"], each["guards"]
        never = [name for name in there["never"] if name not in anyway]
        yield labelled(
            "",
            f"{mode}: {there['reached']} of {there['offered']}, guard outcomes {guards['seen']} of "
            f"{guards['of']}{'; never: ' if never else ''}{', '.join(never)}",
        )


def checked(invariants: Mapping[str, list[str]]) -> Iterator[str]:
    """Which invariants there was something to check on."""
    yield labelled("invariants", f"{len(invariants['checked'])} checked")
    if invariants["not_checked"]:
        yield labelled("", f"not checked: {', '.join(invariants['not_checked'])}")


def left_out(
    ignored: Mapping[str, int], not_observed: Mapping[str, str], by_choice: Mapping[str, int]
) -> Iterator[str]:
    """Clauses that were passed over, the engine's documented choices, and what it does not show."""
    for what, times in by_choice.items():
        yield labelled("not judged", f"{what}, {times} times")
    for clause, times in ignored.items():
        yield labelled("ignored", f"{clause}, {times} times")
    for what, why in not_observed.items():
        yield labelled("not observed", f"{what}: {why}")


def seeds(report: Mapping[str, Any]) -> str:
    """Return the seed of a run in words, or those of the runs that a report is of.

    >>> seeds({"seed": 3}), seeds({"seed": 0, "seeds": [0, 1]})
    ('seed 3', 'seeds 0, 1')
    """
    every = report.get("seeds", [report["seed"]])
    return f"seed{'s' if len(every) > 1 else ''} {', '.join(map(str, every))}"


def verdict(report: dict[str, Any]) -> str:
    """The last line: what it comes to."""
    if report["status"] == CONFORMS:
        return f"conforms: nothing found in {report['examples']} examples ({seeds(report)})"
    if report["status"] == INCONCLUSIVE:
        if report["unearned"]:
            return f"inconclusive: {report['unearned']}, nothing found so far"
        return "inconclusive: nothing found, but not every transition that is offered was reached"
    again = f", {report['not_afresh']}" if report["not_afresh"] else ""
    return f"counterexample: {report['violated'][0]['clause']}{again}"


def compare(trace: Trace) -> dict[str, int | str] | None:
    """Whether a trace could be shorter, in figures and a sentence; ``None`` where nobody can tell.

    The spec with the same bug has a shortest counterexample of one session alone, by proof
    (``prove --mutant``). A trace that takes as many transitions to its violation is as short as
    can be, within the spec's granularity: an engine does several in one iteration. The two can
    be compared if the spec has the bug at this page size, one client's session took part,
    and the clause is one that the spec has a formula for.
    """
    engine, _, name = trace.spec.partition(":")
    exhibit = EXHIBITS.get(name) if engine == "reference" else None
    taken = sum(len(row.transitions) for row in trace.rows)
    clients = {row.command.get("session") for row in trace.rows if row.command["do"] == "submit"}
    stated = any(INVARIANTS[each.invariant].conjuncts for each in trace.violations)
    if (
        exhibit is None
        or exhibit.page_size != trace.config.page_size
        or len(clients) != 1
        or not stated
        or taken < exhibit.depth
    ):
        return None
    need = exhibit.depth
    text = f"{taken} transitions; the spec with this bug needs {need}"
    text += f" (slotproof prove --mutant {name})"
    if taken == need:
        text = f"{taken} transitions, as few as the spec with this bug needs: none is shorter"
    return {"transitions": taken, "spec": need, "text": text}
