"""Checks of what values mean: tokens or pages, positions, prompts, hashes, and events."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from slotproof.driver_checks.driver import Driver, ScriptRun, checks
from slotproof.engines.base import Capabilities
from slotproof.lockstep.abstraction import abstract
from slotproof.lockstep.client import Client
from slotproof.lockstep.misread import ORDER, Iteration, misread, unborn
from slotproof.lockstep.referee import Setup
from slotproof.protocol.snapshot import Snapshot, token_hash
from slotproof.support import bounds

_TURNED = "pages where tokens are meant"


@checks("multiply figures and lengths by the page size; free list and tree hold KV index // P")
def units(driver: Driver) -> Iterator[str]:
    """Figures and lengths count tokens; the free list and the prefix tree list page numbers."""
    yield from driver.first_wrong(
        lambda run, snapshot, client: in_units(run, snapshot) or _short(run, snapshot, client)
    )


def in_units(run: ScriptRun, snapshot: Snapshot) -> str | None:
    """Return a fault for the first value that is certainly in a wrong unit, or None."""
    size = run.config.page_size
    meant = {"full": run.config.total_tokens, "swa": run.config.swa_tokens}
    for name, pool in snapshot["pools"].items():
        total, pages = pool["total"], meant[name] // size
        tree = [page for page, _ in snapshot["tree"].get(name, ())]
        listed = {"free": pool["free"], "tree": tree}
        for what, numbers in listed.items():
            most = max(pages, total // size) + size
            taken = {*numbers} & {*pool["free"]} if what == "tree" and size > 1 else set()
            moved = taken and not {page // size for page in numbers} & {*pool["free"]}
            if moved or (size > 1 and max(numbers, default=0) >= most):
                which = "KV indices where page numbers are meant"
                return f"{name}: {what} has {max(numbers)}, but the pool has {pages} pages: {which}"
        cached = pool["evictable"] + pool["protected"]
        figures = {
            "total": (total, pages),
            "available": (pool["available"], len(pool["free"])),
            "evictable and protected": (cached, len(tree)),
        }
        for what, (shown, count) in figures.items():
            if size > 1 and shown == count > 0:
                return f"{name}: {what} is {shown} for {count} pages: {_TURNED}"
        checked: Mapping[str, int] = snapshot["checker"]["pools"].get(name, {})  # type: ignore[assignment]
        if size > 1 and checked.get("total") == pages:
            return f"{name}: the check's total is {pages} for {total} tokens: {_TURNED}"
    return None


def _short(run: ScriptRun, snapshot: Snapshot, client: Client) -> str | None:
    """Return a fault if a length apparently counts pages instead of tokens, or None."""
    size = run.config.page_size
    for rid, view in snapshot["requests"].items() if size > 1 else ():
        prompt = client.prompt_of(rid)
        if prompt is None or view["phase"] != "running" or not view["output"]:
            continue
        computed = len(prompt) + view["output"] - 1  # The last token may have no KV yet.
        if view["C"] < computed and view["C"] in (computed // size, -(-computed // size)):
            return f"C of {rid} is {view['C']} for {computed} computed tokens: {_TURNED}"
    return None


@checks("for each position, list the KV index in req_to_token: page × P + position modulo P")
def positions(driver: Driver) -> Iterator[str]:
    """A row shows a KV index for each allocated position."""
    yield from driver.first_wrong(
        lambda run, snapshot, _: _paged(snapshot, run.config.page_size) or _cut_short(snapshot)
    )


def _rows(snapshot: Snapshot) -> Iterator[tuple[str, list[int], int]]:
    """Yield name, KV indices and number of expected positions for each row not on loan."""
    for name, view in (*snapshot["slots"].items(), *snapshot["requests"].items()):
        if view["row"] >= 0 and not view.get("lent"):
            shown: Mapping[str, list[int]] = snapshot["rows"]["used"].get(str(view["row"]), {})  # type: ignore[assignment]
            yield f"row {view['row']} of {name}", shown.get("full", []), view["A"]


def _paged(snapshot: Snapshot, size: int) -> str | None:
    """Return a fault of a row with an entry per page, or with page numbers as entries, or None."""
    for row, shown, allocated in _rows(snapshot):
        if 0 < len(shown) < allocated and len(shown) == -(-allocated // size):
            return f"{row} shows {len(shown)} of {allocated} positions: apparently one per page"
        pages = [shown[start : start + size] for start in range(0, len(shown), size)]
        if any(len(page) > 1 for page in pages) and all(len({*page}) == 1 for page in pages):
            return f"{row} shows {shown[0]} for positions 0 and 1: page numbers, not KV indices"
    return None


def _cut_short(snapshot: Snapshot) -> str | None:
    short = ((row, len(shown), most) for row, shown, most in _rows(snapshot) if len(shown) < most)
    return next((f"{row} shows {few} of {most} positions" for row, few, most in short), None)


@checks("a prompt is history and new tokens; a history is prompt and output of finished turns")
def prompts(driver: Driver) -> Iterator[str]:
    """Prompts and histories are whole, and counted in tokens."""
    yield from driver.first_wrong(_not_whole)


def _not_whole(run: ScriptRun, snapshot: Snapshot, client: Client) -> str | None:
    for hashed in _hashed_tokens(snapshot, client):
        length = len(hashed.tokens)
        alone = 0 < hashed.length == len(hashed.new) < length
        in_pages = 0 < hashed.length == length // run.config.page_size < length
        if alone or in_pages:  # Any other difference may be the engine's bug.
            why = "only the new tokens" if alone else _TURNED
            return f"{hashed.what} has {hashed.length} tokens of {length}: {why}"
    return None


@checks('show the unsigned CRC-32 of the decimal ids joined by commas, "5,6,7", or null')
def hashes(driver: Driver) -> Iterator[str]:
    """Hashes follow the protocol and cover all tokens of a prompt or a history."""
    for run in driver.script_runs():
        right = False  # After one right hash, a wrong hash may be the engine's bug.
        for _, snapshot, client in run.moments:
            for hashed in _hashed_tokens(snapshot, client):
                if hashed.hash is None or not hashed.tokens:
                    continue
                right = right or hashed.hash == token_hash(hashed.tokens)
                alone = hashed.new and hashed.hash == token_hash(hashed.new)
                seems = ", the hash of the new tokens only" if alone else _hashed_as(hashed)
                whole = hashed.length == len(hashed.tokens) and not right
                if hashed.hash != token_hash(hashed.tokens) and (seems or whole):
                    yield run.at(snapshot, _otherwise(hashed, seems))
                    return


class HashedTokens(NamedTuple):
    """A prompt or a history, with its hash in the snapshot and the tokens that clients sent."""

    what: str
    length: int
    hash: int | None
    tokens: list[int]
    new: list[int]


def _hashed_tokens(snapshot: Snapshot, client: Client) -> Iterator[HashedTokens]:
    for rid, view in snapshot["requests"].items():
        tokens = client.prompt_of(rid)
        if isinstance(tokens, list) and view["kind"] == "turn":
            new = client.requests[rid].tokens
            assert isinstance(new, list)
            yield HashedTokens(f"the prompt of {rid}", view["prompt"], view["hash"], tokens, new)
    for sid, session in snapshot["sessions"].items():
        tokens = client.history.get(sid)
        if isinstance(tokens, list):
            length = session["history"]
            yield HashedTokens(f"the history of {sid}", length, session["hash"], tokens, [])


def _otherwise(hashed: HashedTokens, seems: str) -> str:
    right = token_hash(hashed.tokens)
    return (
        f"the hash of {hashed.what} is {hashed.hash}{seems}, but the hash of its tokens is {right}"
    )


_RECIPES: Mapping[str, Callable[[list[int]], int]] = {
    "the ids joined by comma and space": lambda ids: _crc(", ".join(map(str, ids))),
    "the ids joined by spaces": lambda ids: _crc(" ".join(map(str, ids))),
    "the ids joined by nothing": lambda ids: _crc("".join(map(str, ids))),
    "a list in brackets": lambda ids: _crc(json.dumps(ids)),
    "a list in brackets, without spaces": lambda ids: _crc(json.dumps(ids, separators=(",", ":"))),
    "ids as 4 bytes": lambda ids: zlib.crc32(b"".join(i.to_bytes(4, "little") for i in ids)),
    "ids as 8 bytes": lambda ids: zlib.crc32(b"".join(i.to_bytes(8, "little") for i in ids)),
    "Adler-32": lambda ids: zlib.adler32(",".join(map(str, ids)).encode()),
}
"""Wrong ways to compute a hash, as seen in drivers."""


def _hashed_as(hashed: HashedTokens) -> str:
    """Return the wrong way to compute a hash that explains the snapshot's hash, or ""."""
    right, ids = token_hash(hashed.tokens), hashed.tokens
    if hashed.hash == right or not ids or not 0 <= min(ids) <= max(ids) <= bounds.TOKENS:
        return ""
    names = [name for name, of in _RECIPES.items() if of(ids) == hashed.hash]
    return f", the hash of {names[0]}" if names else ""


def _crc(text: str) -> int:
    return zlib.crc32(text.encode())


@checks("append every event to one list at the place of its cause, in all modules")
def order(driver: Driver) -> Iterator[str]:
    """Events stand in the order of their occurrence."""
    yield from _misread(driver, ordered=True)


@checks("see “Events” in docs/reference/protocol.md; lengths are the ones after the event")
def parameters(driver: Driver) -> Iterator[str]:
    """Event parameters follow the protocol, in tokens."""
    yield from _misread(driver, ordered=False)


def _misread(driver: Driver, *, ordered: bool) -> Iterator[str]:
    offered, seen = driver.offered(), set[str]()
    for run in driver.script_runs():
        for snapshot, kind, message in _events(run, offered):
            if (kind == ORDER) == ordered and message not in seen:
                seen.add(message)
                yield run.at(snapshot, message)
            if len(seen) == bounds.SEEN_LINES:
                return


def _events(
    run: ScriptRun, offered: Capabilities, *, certain: bool = False
) -> Iterator[tuple[Snapshot, str, str]]:
    """Yield snapshot, kind and message where events fit the spec only under another reading.
    ``certain``: report a wrong order only if an event comes before its request or session is
    created, and a parameter only if all earlier events fit the same reading."""
    config, earlier = run.config, list[Iteration]()
    for before, snapshot, _ in run.moments:
        if events := snapshot.get("events"):
            constants = Setup(config).constants(offered, snapshot["rows"].get("width"))
            start, end = (abstract(side, constants) for side in (before, snapshot))
            reading = misread((start, events, end), earlier)
            if reading and not (certain and reading[0] == ORDER and not unborn(start, events)):
                yield snapshot, *reading
            if certain:
                earlier.append((start, events, end))


def sign(run: ScriptRun, offered: Capabilities) -> str | None:
    """Return a fault in the run that only the driver can cause, or None."""
    for _, snapshot, client in run.moments:
        wrong = in_units(run, snapshot) or _paged(snapshot, run.config.page_size)
        hashed = ((tokens, _hashed_as(tokens)) for tokens in _hashed_tokens(snapshot, client))
        wrong = wrong or next((_otherwise(ids, seems) for ids, seems in hashed if seems), None)
        if wrong is not None:
            return run.at(snapshot, wrong)
    misreadings = _events(run, offered, certain=True)
    return next((run.at(snapshot, message) for snapshot, _, message in misreadings), None)
