"""A close while a second turn runs: the scheduler ends.

ENV/bin/python docs/findings/scripts/close-in-turn.py
"""

from harness import Engine, main


def finding():
    engine = Engine()
    engine.open("s1")
    engine.submit("r1", [1], 1, session="s1")
    engine.step(2)
    engine.submit("r2", [1, 2], 4, session="s1")
    engine.step()
    try:
        engine.close("s1")
        engine.step(8)
    except AttributeError as error:
        return f"the scheduler ends: AttributeError: {error}"
    print("answers:", engine.answers)
    return None


main(finding)
