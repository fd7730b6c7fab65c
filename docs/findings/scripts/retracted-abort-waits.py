"""A running request, aborted and then retracted, waits in the queue for its final answer.

ENV/bin/python docs/findings/scripts/retracted-abort-waits.py
"""

from harness import Engine, main


def finding():
    engine = Engine(tokens=20, running=3, rows=3, context=32)
    for session in ("s1", "s2", "s3"):
        engine.open(session)
    engine.submit("r1", [1], 0, session="s1")
    engine.submit("r2", [2], 0, session="s2")
    engine.submit("r3", [3], 2)
    engine.step()
    engine.submit("r4", [4], 0, session="s3")
    engine.abort("r3")
    engine.retract()
    engine.step(50)
    print("answered:", engine.answers, "waiting:", engine.waiting())
    return None if "r3" in engine.answers else "an aborted request is not answered in 50 iterations"


main(finding)
