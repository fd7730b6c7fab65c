"""Two turns of a session are accepted at the same time.

ENV/bin/python docs/findings/scripts/two-in-flight.py
"""

from harness import Engine, main, row


def finding():
    engine = Engine()
    engine.open("s1")
    engine.submit("r0", [1, 2], 2, session="s1")
    engine.step(3)
    engine.submit("r1", [3], 8, session="s1")
    engine.submit("r2", [4], 8, session="s1")
    engine.step()
    rows = {rid: row(req) for rid, req in engine.running().items()}
    print("answers:", engine.answers)
    print("rows of the running turns:", rows)
    print("the engine's own check:", engine.check())
    return f"turns {sorted(rows)} of one session run at once" if len(rows) > 1 else None


main(finding)
