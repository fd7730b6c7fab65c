"""INV-LOOKUP: a page that is found by a key holds the tokens that the key is of.

Keys say whatever the engine makes of a prefix, a hash say: two are compared, and nothing else is
known of them. A page that holds other tokens is told here before anybody matches it.
"""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.lockstep.observation import Observation, Violation, violated


def judge(seen: Observation) -> Iterator[Violation]:
    for pool, lookup in seen.snapshot.get("lookup", {}).items():
        seen.coverage.checked["INV-LOOKUP"] += 1
        tree = {page for page, _ in seen.snapshot["tree"].get(pool, ())}
        found = {page for _, page in lookup["finds"]}
        if tree - found:
            words = "{pool}: page {page} is in the tree, and no key leads to it"
            yield violated("INV-LOOKUP.found", words, pool=pool, page=min(tree - found))
        if found - tree:
            words = "{pool}: a key leads to page {page}, which is not in the tree"
            yield violated("INV-LOOKUP.there", words, pool=pool, page=min(found - tree))
        holds: dict[int, set[int]] = {}
        for key, page in lookup["holds"]:
            holds.setdefault(page, set()).add(key)
        if wrong := [page for key, page in lookup["finds"] if key not in holds.get(page, ())]:
            words = "{pool}: page {page} is found by the key of tokens whose KV it does not hold"
            yield violated("INV-LOOKUP.holds", words, pool=pool, page=min(wrong))
