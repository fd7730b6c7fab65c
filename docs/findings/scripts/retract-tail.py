"""A retracted turn writes over a token of its slot, and the token loses its owner.

ENV/bin/python docs/findings/scripts/retract-tail.py
"""

from harness import Engine, main


def finding():
    engine = Engine()
    engine.open("s1")
    engine.submit("r1", [1], 2, session="s1")
    engine.step()
    engine.retract()
    engine.step()
    verdict = engine.check()
    print("answers:", engine.answers)
    available, tree, held = engine.sum()
    print(f"{available} available + {tree} in the tree + {held} held, of 64")
    print("the engine's own check:", verdict)
    return "a token belongs to nobody" if available + tree + held != 64 else None


main(finding)
