"""Sliding window: a prompt that branches off an evicted prefix is not published while it decodes.

ENV/bin/python docs/findings/scripts/swa-branch-uncached.py
"""

from harness import Engine, main


def matched(engine, rid):
    """Return how many tokens of its prompt a request found in the tree."""
    return int(engine.running()[rid].cached_tokens)


def finding():
    engine = Engine(window=2)
    shared, branch = list(range(1, 7)), list(range(31, 37))
    engine.submit("r1", [*shared, *range(7, 13)], 2)
    engine.step(6)
    engine.submit("r2", [*shared, *branch], 20)
    engine.step(4)
    engine.submit("r3", [*shared, *branch, 50], 20)
    engine.step(2)
    print("answers:", engine.answers, "- running:", list(engine.running()))
    print("found in the tree: r2", matched(engine, "r2"), "- r3", matched(engine, "r3"), "of 13")
    return "r3 computes the prompt of r2 again" if matched(engine, "r3") < 12 else None


main(finding)
