"""A rejected turn ends the claim of the live turn: a third turn runs on the same KV.

ENV/bin/python docs/findings/scripts/stub-clears-inflight.py
"""

from harness import Engine, main, row


def finding():
    engine = Engine()
    engine.open("s1")
    engine.submit("r0", [1, 2], 2, session="s1")
    engine.step(3)
    engine.submit("r1", [3], 8, session="s1")
    engine.submit("r2", [4], 1, session="s1")  # rejected: r1 is in flight
    engine.step()
    print("answers:", engine.answers)
    print("r1 runs:", "r1" in engine.running(), "- in flight:", engine.inflight("s1"))
    print("the engine's own check:", engine.check())
    engine.submit("r3", [5], 8, session="s1")
    engine.step()
    rows = {rid: row(req) for rid, req in engine.running().items()}
    print("rows of the running turns:", rows)
    print("the engine's own check:", engine.check())
    return f"turns {sorted(rows)} of one session run at once" if len(rows) > 1 else None


main(finding)
