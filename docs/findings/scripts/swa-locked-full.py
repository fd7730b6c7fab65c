"""Sliding window: full KV is freed while a running turn still reads the KV.

ENV/bin/python docs/findings/scripts/swa-locked-full.py
"""

from harness import Engine, main


def finding():
    engine = Engine(window=2)
    engine.submit("p1", [1], 0)
    engine.open("s1")
    engine.submit("r1", [1, 2, 3], 4, session="s1")
    engine.step()
    engine.evict(1)
    engine.submit("p2", [1], 0)
    engine.step()
    free = engine.allocator.full_attn_allocator.free_pages.tolist()
    reads = engine.indices(engine.running()["r1"])
    print("r1 reads pages", reads)
    print("the engine's own check:", engine.check())
    lost = sorted(set(free) & set(reads))
    return f"page {lost} is free" if lost else None


main(finding)
