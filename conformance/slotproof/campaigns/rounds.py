"""What there is to do next: it follows from the plan and the journal alone.

So any number of workers does the same, and so does who goes on where another one was killed.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator

from slotproof.campaigns.lines import Head
from slotproof.campaigns.state import CampaignState
from slotproof.search.guided import Explore, share
from slotproof.search.plan import Plan
from slotproof.search.shrinking import Shrink
from slotproof.search.symptoms import AcceptedFindings


def deal(head: Head, number: int, left: int | None) -> list[tuple[str, int]]:
    """The tasks of a round: of each the configuration, and how many examples; not more than are
    left of what was asked for.

    The number of the round counts from 0.
    """
    tasks = []
    most = share(number, head.examples_of_task)
    for name in [name for _ in range(head.tasks_of_round) for name in head.configs]:
        count = most if left is None else min(most, left)
        if count > 0:
            tasks.append((name, count))
        left = None if left is None else left - count
    return tasks


def plan_of(head: Head) -> Plan:
    """What tasks go by. How long the whole takes is not their business."""
    return Plan(
        head.configs,
        steps=head.steps,
        seed=head.seed,
        profile=head.chosen_profile,
        set_aside=head.set_aside,
        shrink=head.shrink,
        distinct=None,
    )


def explores(state: CampaignState, accepted: AcceptedFindings) -> Iterator[tuple[int, Explore]]:
    """The tasks of the round that are not done, by their numbers."""
    head, current = state.head, state.round
    assert current is not None
    plan, known = plan_of(head), tuple(state.findings.known)
    corpora = {name: tuple(place.corpus) for name, place in state.places.items()}
    seen = {name: frozenset(place.seen) for name, place in state.places.items()}
    first = Counter({name: place.examples for name, place in state.places.items()})
    for number, (name, examples) in enumerate(current.tasks):
        if number not in current.results:
            task = Explore(
                plan,
                head.blank(name),
                seed_of(head.seed, current.number, number),
                first[name],
                examples,
                corpora[name],
                seen[name],
                known,
                accepted,
            )
            yield number, task
        first[name] += examples


def shrinks(state: CampaignState) -> Iterator[tuple[int, Shrink]]:
    """What of the round is to be shrunk yet, by the numbers of the groups."""
    current = state.round
    assert current is not None
    plan, known = plan_of(state.head), tuple(state.findings.known)
    for number, group in enumerate(state.groups()):
        if number not in current.shrunk:
            yield number, Shrink(plan, group, known)


def seed_of(seed: int, number: int, task: int) -> int:
    """The seed of a task: no two of them have the same, on any machine.

    >>> seed_of(0, 1, 2) == seed_of(0, 1, 2), seed_of(0, 1, 2) == seed_of(0, 2, 1)
    (True, False)
    """
    return int.from_bytes(hashlib.sha256(f"{seed} {number} {task}".encode()).digest()[:8], "big")
