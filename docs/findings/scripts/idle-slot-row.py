"""The scheduler allocates a row again that is held by an idle session's slot, and ends.

ENV/bin/python docs/findings/scripts/idle-slot-row.py
"""

from harness import Engine, main


def finding():
    engine = Engine(rows=4, running=4)
    engine.open("s1")
    engine.submit("r1", [1], 0, session="s1")
    engine.step(2)
    for number in range(2, 6):
        engine.submit(f"r{number}", [number], 2)
    try:
        engine.step(3)
    except RuntimeError as error:
        return f"four requests for the three rows that are left: {str(error)[:75]}"
    print("answers:", engine.answers)
    print("the engine's own check:", engine.check())
    return None


main(finding)
