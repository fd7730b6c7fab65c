"""A first turn without tokens: the scheduler ends.

ENV/bin/python docs/findings/scripts/empty-first-turn.py
"""

from harness import Engine, main


def finding():
    engine = Engine()
    engine.open("s1")
    engine.submit("r1", [], 1, session="s1")
    try:
        engine.step(2)
    except RuntimeError as error:
        return f"the scheduler ends: RuntimeError: {error}"
    print("answers:", engine.answers)
    return None


main(finding)
