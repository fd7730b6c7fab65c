"""A session's only turn waits forever: admission charges a page the turn does not need.

ENV/bin/python docs/findings/scripts/page-16-waits.py
"""

from harness import Engine, main


def finding():
    engine = Engine(tokens=32, page_size=16)
    engine.open("s1")
    engine.submit("r1", [1], 1, session="s1")
    engine.step(2)
    print("r1:", engine.answers["r1"], "- available:", engine.allocator.available_size())
    engine.submit("r2", [2], 1, session="s1")  # position 2 of a page with room for 16
    engine.step(50)
    print("running:", list(engine.running()), "- waiting:", engine.waiting())
    print("the engine's own check:", engine.check())
    return "nothing runs, the only turn waits" if engine.waiting() else None


main(finding)
