"""Sliding window: a prompt as long as the window's pool waits forever, and all later requests too.

ENV/bin/python docs/findings/scripts/swa-budget-waits.py
"""

from harness import Engine, main


def finding():
    engine = Engine(window=2, swa_tokens=24)
    engine.submit("p1", list(range(1, 24)), 0)  # 23 of the 24 places of the window's pool
    engine.submit("p2", [1], 1)
    engine.step(50)
    pools = engine.allocator
    print("free:", pools.full_available_size(), "and of the window", pools.swa_available_size())
    print("running:", list(engine.running()), "- waiting:", engine.waiting())
    print("the engine's own check:", engine.check())
    return "nothing runs, and no session exists" if engine.waiting() else None


main(finding)
