"""INV-LOOKUP: a lookup key leads to a page that holds the tokens of the key.

A key is the engine's own name of a prefix, such as a hash. Keys are only compared for equality.
Wrong pages are reported even if no request has matched them yet.
"""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.lockstep.observation import Observation, Violation, violated


def judge(seen: Observation) -> Iterator[Violation]:
    for pool, lookup in seen.snapshot.get("lookup", {}).items():
        seen.coverage.checked["INV-LOOKUP"] += 1
        tree = {page for page, _ in seen.snapshot["tree"].get(pool, ())}
        leads_to = {page for _, page in lookup["finds"]}
        if tree - leads_to:
            words = "{pool}: page {page} is in the tree, but no key finds it"
            yield violated("INV-LOOKUP.found", words, pool=pool, page=min(tree - leads_to))
        if leads_to - tree:
            words = "{pool}: a key finds page {page}, which is not in the tree"
            yield violated("INV-LOOKUP.there", words, pool=pool, page=min(leads_to - tree))
        holds: dict[int, set[int]] = {}
        for key, page in lookup["holds"]:
            holds.setdefault(page, set()).add(key)
        if wrong := [page for key, page in lookup["finds"] if key not in holds.get(page, ())]:
            words = "{pool}: a key finds page {page}, which holds the KV of other tokens"
            yield violated("INV-LOOKUP.holds", words, pool=pool, page=min(wrong))
