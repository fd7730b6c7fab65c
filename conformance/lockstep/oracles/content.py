"""INV-CONTENT: the KV at each committed position, and the tokens that come of it."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.conformance.lockstep.observation import Observation, Owner, Violation


def judge(seen: Observation) -> Iterator[Violation]:
    yield from _stamps(seen)
    for rid, expected in seen.recompute.items():
        seen.coverage.checked["INV-CONTENT"] += 1
        output = seen.client.requests[rid].output
        pairs = enumerate(zip(output, expected, strict=False))  # `expected` ends before a tie
        wrong = next(((i, have, want) for i, (have, want) in pairs if have != want), None)
        if wrong is not None:
            first, have, want = wrong
            text = f"output {first} of {rid} is {have}; without a cache it is {want}"
            yield Violation("INV-CONTENT", "tokens", text)


def _stamps(seen: Observation) -> Iterator[Violation]:
    content = seen.snapshot.get("content")
    if content is None:
        return
    for owner in seen.owners:
        known = _known(seen, owner)
        stamps = content.get(str(owner.row), ())
        if known is None:
            continue
        seen.coverage.checked["INV-CONTENT"] += 1
        for position, (token, stamped) in enumerate(stamps[: owner.C]):
            if stamped != position or (position < len(known) and token != known[position]):
                should = known[position] if position < len(known) else "its token"
                yield Violation(
                    "INV-CONTENT",
                    "stamp",
                    f"position {position} of {owner.name} holds the KV of token {token} at "
                    f"{stamped}, not of {should} at {position}",
                )
                return


def _known(seen: Observation, owner: Owner) -> list[int] | None:
    """The tokens that the owner's KV is for, as far as clients know them."""
    if owner.name in seen.snapshot["requests"]:
        request = seen.snapshot["requests"][owner.name]
        if request["kind"] == "doomed":
            return None
        return seen.client.prompt_of(owner.name)
    return seen.client.history.get(owner.name.removeprefix("slot of "))
