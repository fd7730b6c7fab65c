"""After a history of one token, a turn without new tokens ends the scheduler or loses a token.

ENV/bin/python docs/findings/scripts/one-token-history.py
"""

from harness import Engine, main


def finding():
    engine = Engine()
    engine.open("s1")
    engine.submit("r1", [1], 0, session="s1")
    engine.step()
    engine.submit("r2", [], 1, session="s1")
    try:
        engine.step(2)
    except AssertionError as error:
        return f"the scheduler ends: AssertionError: {error}"
    available, tree, held = engine.sum()
    print(f"{available} available + {tree} in the tree + {held} held, of 64")
    return "memory belongs to nobody" if available + tree + held != 64 else None


main(finding)
