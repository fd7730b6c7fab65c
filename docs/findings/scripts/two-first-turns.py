"""Two first turns of a session in a single iteration: the scheduler ends, or memory is lost.

ENV/bin/python docs/findings/scripts/two-first-turns.py
"""

from harness import Engine, main


def finding():
    engine = Engine()
    engine.open("s1")
    engine.submit("r1", [1], 1, session="s1")
    engine.submit("r2", [1], 1, session="s1")  # rejected: a turn is in flight
    try:
        engine.step(2)
    except AssertionError as error:
        return f"the scheduler ends: AssertionError: {error}"
    print("answers:", engine.answers)
    available, tree, held = engine.sum()
    print(f"{available} available + {tree} in the tree + {held} held, of 64")
    print("the engine's own check:", engine.check())
    return "memory belongs to nobody" if available + tree + held != 64 else None


main(finding)
