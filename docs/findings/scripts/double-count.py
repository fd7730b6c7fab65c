"""A turn's KV is counted twice while the turn runs on its slot's row.

ENV/bin/python docs/findings/scripts/double-count.py
"""

from harness import Engine, main


def finding():
    engine = Engine()
    engine.open("s1")
    engine.submit("r1", list(range(1, 12)), 4, session="s1")
    engine.step(6)
    engine.submit("r2", list(range(21, 26)), 4, session="s1")
    engine.step()
    verdict = engine.check()
    print("the engine's own check:", verdict)
    return None if verdict == "ok" else "nothing is lost, the check says leak"


main(finding)
