"""A retracted turn is treated as finished: the next turn runs at the same time on the same KV.

ENV/bin/python docs/findings/scripts/retract-finishes.py
"""

from harness import Engine, main, row


def finding():
    engine = Engine()
    engine.open("s1")
    engine.submit("r1", [1, 2], 8, session="s1")
    engine.step(2)
    engine.retract()
    inflight, history = engine.inflight("s1"), engine.history("s1")
    print("r1 waits:", engine.waiting(), "- in flight:", inflight)
    print("history:", history)
    print("the engine's own check:", engine.check())
    engine.submit("r2", [3], 8, session="s1")
    engine.step(2)
    print("rows of the running turns:", {rid: row(req) for rid, req in engine.running().items()})
    print("answers:", engine.answers)
    return None if inflight else f"r1 is not over, and not in flight; history {history}"


main(finding)
