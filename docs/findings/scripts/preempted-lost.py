"""A turn preempted for a request that is then not admitted is lost from every queue.

ENV/bin/python docs/findings/scripts/preempted-lost.py
"""

from harness import Engine, main


def finding():
    engine = Engine(tokens=96, running=2, rows=8, priority=True)
    engine.open("s1")
    engine.open("s2")
    engine.submit("r1", [1], 0, session="s1", priority=1)
    engine.step()
    engine.submit("r2", list(range(1, 31)), 2, session="s1", priority=2)
    engine.submit("r3", list(range(61, 93)), 2, session="s2", priority=0)
    engine.step()
    engine.submit("r4", list(range(121, 153)), 2, priority=1)
    engine.step(40)
    print("answered:", engine.answers, "waiting:", engine.waiting(), "running:", engine.running())
    known = {*engine.answers, *engine.waiting(), *engine.running()}
    return None if "r3" in known else "r3 is not answered, waits nowhere and does not run"


main(finding)
