"""One journal of several: of machines that each had a seed of its own."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from slotproof.campaigns.journal import NAME, SHARED, BadJournal, Journal, difference, lines, load
from slotproof.campaigns.lines import Head


def merge(folders: Sequence[Path], into: Path) -> Journal:
    """A new journal with all that is in those, to be gone on with. Raises :class:`BadJournal`.

    What one of them found others know from then on. Its seed is made of theirs; two that have the
    same have the same examples, and are no two journals.
    """
    if (into / NAME).exists():
        raise BadJournal(f"{into / NAME} is there already: name another --journal")
    heads = [load(folder).head for folder in folders]
    for folder, head in zip(folders, heads, strict=True):
        if head.parts:
            raise BadJournal(
                f"{folder / NAME} was merged itself: merge those that it was made of, all at once"
            )
    first = heads[0]
    for folder, head in zip(folders[1:], heads[1:], strict=True):
        if (differs := difference(first, head, SHARED)) is not None:
            raise BadJournal(f"{folder / NAME} does not go with {folders[0] / NAME}: {differs}")
    seeds = [head.seed for head in heads]
    twice = next((seed for seed in seeds if seeds.count(seed) > 1), None)
    if twice is not None:
        raise BadJournal(f"two of them have the seed {twice}: their examples are the same")
    journal = Journal(into, _head(heads))
    try:
        for part, folder in enumerate(folders):
            for _, line in islice(lines(folder / NAME), 1, None):  # all but its head
                journal.add({**line, "part": part})
        journal.add({"kind": "joined", "at": round(time.time(), 2)})
    except BaseException:
        journal.close()
        raise
    return journal


def _head(heads: Sequence[Head]) -> Head:
    """Of what they have in common; the rest is that of the first."""
    configs = {name: config for head in heads for name, config in head.configs.items()}
    for head in heads:
        for name, config in head.configs.items():
            if config != configs[name]:
                raise BadJournal(f"the configuration {name} is not the same in all of them")
    seeds = sorted(head.seed for head in heads)
    seed = int(hashlib.sha256(f"{seeds}".encode()).hexdigest()[:12], 16)
    return replace(heads[0], configs=configs, seed=seed, started=time.time(), parts=tuple(heads))
