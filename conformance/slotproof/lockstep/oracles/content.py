"""INV-CONTENT: the KV at every committed position and all computed tokens are right."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.lockstep.observation import Observation, Owner, Violation, violated
from slotproof.lockstep.oracles.contract import aborted_unasked

STORED_RIGHT = "the KV in the snapshot is correct"
"""Last words of a violation's sentence if the snapshots show correct KV."""


def judge(seen: Observation) -> Iterator[Violation]:
    stored = list(_stamps(seen))
    yield from stored
    for rid, expected in seen.recompute.items():
        sent = seen.client.requests[rid]
        if aborted_unasked(seen, sent) and len(sent.output) <= 1 + seen.config.draft:
            continue  # The tokens may answer another prompt: INV-ANSWER.unasked reports the abort.
        seen.coverage.checked["INV-CONTENT"] += 1
        output = sent.output
        assert isinstance(output, list)  # hidden tokens can't be recomputed
        pairs = enumerate(zip(output, expected, strict=False))  # ends at an uncertain token
        wrong = next(((i, have, want) for i, (have, want) in pairs if have != want), None)
        if wrong is not None:
            first, have, want = wrong
            words = "output {n} of {rid} is {engine}; without a cache it is {spec}"
            words += f"; {STORED_RIGHT}" if "content" in seen.snapshot and not stored else ""
            yield violated("INV-CONTENT.tokens", words, n=first, rid=rid, spec=want, engine=have)


def _stamps(seen: Observation) -> Iterator[Violation]:
    if (content := seen.snapshot.get("content")) is None:
        return
    for owner in seen.owners:
        if (known := _known(seen, owner)) is None:
            continue
        stamps = content.get(str(owner.row), ())
        seen.coverage.checked["INV-CONTENT"] += 1
        for position, (token, stamped) in enumerate(stamps[: owner.C]):
            if stamped != position or (position < len(known) and token != known[position]):
                should = known[position] if position < len(known) else None
                words = "position {at} of {owners} holds the KV of token {engine} at {stamped}, "
                words += f"expected {'its token' if should is None else should} at {{at}}"
                yield violated(
                    "INV-CONTENT.stamp",
                    words,
                    owners=(owner.holder,),
                    at=position,
                    stamped=stamped,
                    spec=should,
                    engine=token,
                )
                return


def _known(seen: Observation, owner: Owner) -> list[int] | None:
    """Return the tokens whose KV the owner should hold, or None if the clients do not know them."""
    kind, name = owner.holder
    if kind == "slot":
        known = seen.client.history.get(name)
    else:
        doomed = seen.snapshot["requests"][name]["kind"] == "doomed"
        known = None if doomed else seen.client.prompt_of(name)
    return known if isinstance(known, list) else None
