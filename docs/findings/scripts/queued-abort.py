"""An aborted queued turn stays in flight: every later turn is rejected.

ENV/bin/python docs/findings/scripts/queued-abort.py
"""

from harness import Engine, main


def finding():
    engine = Engine()
    engine.open("s1")
    engine.submit("r1", [1], 4, session="s1")
    engine.abort("r1")
    engine.step()
    engine.submit("r2", [2], 1, session="s1")
    engine.step(2)
    print("answers:", engine.answers)
    print("the engine's own check:", engine.check())
    rejected = engine.answers["r2"].startswith("abort")
    return "r2 is rejected, though nothing is in flight" if rejected else None


main(finding)
