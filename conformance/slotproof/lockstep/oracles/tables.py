"""INV-TABLES: the engine's tables and queues list exactly the live requests and sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from slotproof.lockstep.observation import Observation, Violation, violated


def judge(seen: Observation) -> Iterator[Violation]:
    requests = seen.snapshot["requests"]
    served = {*requests, *seen.snapshot["sessions"]}
    for table, names in seen.snapshot.get("tables", {}).items():
        seen.coverage.checked["INV-TABLES"] += 1
        if gone := [name for name in names if name not in served]:
            words = "{table} has an entry for {name}, which has ended"
            yield violated("INV-TABLES.ended", words, table=table, name=gone[0])
    if (queues := seen.snapshot.get("queues")) is None:
        return
    seen.coverage.checked["INV-TABLES"] += 1
    times = Counter(name for names in queues.values() for name in names)
    for rid in requests:
        if times[rid] != 1:
            words = "{rid} is in a queue {engine} times, expected once ({all})"
            every = ", ".join(queues)
            yield violated("INV-TABLES.queued", words, rid=rid, engine=times[rid], all=every)
            return
