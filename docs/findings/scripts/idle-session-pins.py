"""An idle session blocks a plain request forever.

ENV/bin/python docs/findings/scripts/idle-session-pins.py
"""

from harness import Engine, main


def finding():
    engine = Engine(tokens=20, running=3, rows=3, context=32)
    engine.open("s1")
    engine.submit("r1", list(range(1, 8)), 1, session="s1")
    engine.step(2)
    print("r1:", engine.answers["r1"], "- available:", engine.allocator.available_size())
    engine.submit("p1", list(range(11, 24)), 2)  # 13 + 2 of 20: would fit without the session
    engine.step(50)
    print("running:", list(engine.running()), "- waiting:", engine.waiting())
    print("answers:", engine.answers)
    print("the engine's own check:", engine.check())
    return "nothing runs, p1 waits, nobody is told" if engine.waiting() else None


main(finding)
