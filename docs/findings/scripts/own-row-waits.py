"""Two idle sessions hold both rows: the next turn of either session waits forever.

ENV/bin/python docs/findings/scripts/own-row-waits.py
"""

from harness import Engine, main, row


def finding():
    engine = Engine(rows=2, running=2)
    for session in ("s1", "s2"):
        engine.open(session)
        engine.submit(f"{session}-first", [1], 1, session=session)
    engine.step(3)
    print("answers:", engine.answers)
    print("rows of the slots:", row(engine.slot("s1")), row(engine.slot("s2")))
    engine.submit("r3", [2], 1, session="s2")
    engine.step(50)
    print("waiting:", engine.waiting(), "- running:", list(engine.running()))
    print("free of 64 tokens:", engine.sum()[0], "- the engine's own check:", engine.check())
    return "a turn waits for a row that its session has" if "r3" in engine.waiting() else None


main(finding)
