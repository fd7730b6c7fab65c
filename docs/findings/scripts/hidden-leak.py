"""The check misses a lost token: another token is counted twice.

ENV/bin/python docs/findings/scripts/hidden-leak.py
"""

from harness import Engine, main


def finding():
    engine = Engine()
    engine.open("s1")
    engine.submit("r1", [1], 0, session="s1")
    engine.step()
    engine.submit("r2", [], 0, session="s1")
    try:
        engine.step()
    except AssertionError as error:
        print("another finding, one-token-history:", error)
        return None
    verdict = engine.check()
    available, tree, held = engine.sum()
    print(f"{available} available + {tree} in the tree + {held} held, of 64")
    print("the engine's own check:", verdict)
    return "a token belongs to nobody" if available + tree + held != 64 else None


main(finding)
