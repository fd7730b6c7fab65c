"""Sliding window: a prompt waiting for room for its next chunk is in no batch, and not counted.

ENV/bin/python docs/findings/scripts/parked-not-counted.py
"""

from harness import Engine, main


def finding():
    engine = Engine(page_size=4, window=6, chunk=8)
    engine.open("s1")
    engine.submit("r1", list(range(1, 18)), 0, session="s1")
    engine.submit("r2", [100], 2)
    engine.step(1)
    engine.open("s2")
    engine.submit("r3", list(range(120, 141)), 0, session="s2")
    for _ in range(6):
        engine.step()
        check = engine.check()
        if check != "ok":
            print("the engine's own check:", check)
            return "a prompt between two chunks is in no batch, and its KV is taken for leaked"
    return None


main(finding)
