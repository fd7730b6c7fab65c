"""How sure one may be: what a campaign reached, when that was new last, and what may be left.

Good's estimate (I. J. Good, "The population frequencies of species and the estimation of population
parameters", Biometrika 40, 1953): of n examples, if f1 things were met by exactly one, the next
example meets f1/n things that were never met. Böhme uses it for fuzzing ("STADS: Software testing
as species discovery", ACM TOSEM 27(2), 2018). It takes examples for a sample of something that
stays the same, and a search that follows what is new does not stay the same: there it is biased
(Böhme, Liyanage, Wüstholz, "Estimating residual risk in greybox fuzzing", ESEC/FSE 2021), and says
how fast this search still learns, no more. Where nothing was found in n examples, 3/n bounds with
95 % confidence how often an example like these finds something (Hanley, Lippman-Hand, "If nothing
goes wrong, is everything all right?", JAMA 249, 1983). None of it speaks of what none can reach.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from slotproof.campaigns.state import CampaignState
from slotproof.support.terminal import labelled

RUN = 1400
"""Examples of a run by default, at which the mutants were counted."""
KILLED, OF = 352, 362
"""Of 400 systematic mutants of the reference engine that nobody had looked at before (`make mutants
SEED=4`, 2026-11-25): so many of those that anybody could see."""


def good_turing(counts: Mapping[str, int], examples: int) -> float | None:
    """Things never met that the next example is expected to meet; ``None`` without examples.

    >>> good_turing({"a": 1, "b": 1, "c": 5}, 100), good_turing({}, 0)
    (0.02, None)
    """
    return sum(count == 1 for count in counts.values()) / examples if examples else None


def how_sure(state: CampaignState) -> dict[str, Any]:
    """The estimates, and what they are made of."""
    examples = state.examples
    rare: Counter[str] = Counter()
    for name, place in state.places.items():
        rare.update({f"{name} {feature}": count for feature, count in place.rare.items()})
    last = max(state.when.values(), key=lambda each: each.examples, default=None)
    return {
        "examples": examples,
        "rounds": state.rounds,
        "features": {
            "reached": state.features,
            "by_one_example": sum(count == 1 for count in rare.values()),
            "next_example": good_turing(rare, examples),
            "last_new": {"example": state.new.examples, "seconds": round(state.new.seconds, 1)},
        },
        "identities": {
            "seen": len(state.shown),
            "by_one_example": sum(count == 1 for count in state.shown.values()),
            "next_example": good_turing(state.shown, examples),
            "at_most": 3 / examples if examples and not state.shown else None,
            "last_new": last and {"example": last.examples, "seconds": round(last.seconds, 1)},
        },
        "mutants": {"killed": KILLED, "of": OF, "examples": RUN},
    }


def sentences(sure: Mapping[str, Any]) -> Iterator[str]:
    """The same for people."""
    examples, features, identities = sure["examples"], sure["features"], sure["identities"]
    if not examples:
        yield "no round is over: nothing can be estimated"
        return
    yield (
        f"{features['reached']} features reached, the last new one {_when(features, examples)}; "
        f"to come: {_rate(features['next_example'])}"
    )
    if identities["seen"]:
        last = identities["last_new"]
        new = f", the last finding {_when(identities, examples)}" if last else ""
        seen = identities["seen"]
        yield (
            f"{seen} {'identity' if seen == 1 else 'identities'} seen{new}; to come: "
            f"{_rate(identities['next_example'])}"
        )
    else:
        most = max(1, examples // 3)
        yield f"nothing in {examples} examples: fewer than one of {most} like these shows anything"
    yield yardstick(examples)


def text(sure: Mapping[str, Any]) -> Iterator[str]:
    """Lines of a report."""
    for number, each in enumerate(sentences(sure)):
        yield labelled("" if number else "how sure", each)


def yardstick(examples: int) -> str:
    """What is known of this effort, from the reference engine."""
    rate = f"{100 * KILLED / OF:.1f} % of systematic mutants of the reference engine"
    if examples < RUN:
        return f"{RUN} examples of a run kill {rate}; this is less"
    times = "as many" if examples < 2 * RUN else f"{examples // RUN} times as many"
    return f"{RUN} examples of a run kill {rate}; this is {times}, and another search"


def _when(of: Mapping[str, Any], examples: int) -> str:
    last = of["last_new"]["example"]
    return f"in the last round, by example {last}" if last >= examples else f"by example {last}"


def _rate(per_example: float) -> str:
    """
    >>> _rate(0.02), _rate(0.0), _rate(1.5)
    ('about one in 50 examples', 'none that the estimate sees', 'about 1.5 in each example')
    """
    if not per_example:
        return "none that the estimate sees"
    if per_example >= 1:
        return f"about {per_example:.1f} in each example"
    return f"about one in {round(1 / per_example)} examples"
