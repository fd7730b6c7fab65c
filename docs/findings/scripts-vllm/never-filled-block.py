"""A block that was never filled can be matched: the batch for the block ran without it.

ENV/bin/python docs/findings/scripts-vllm/never-filled-block.py
"""

from harness import Engine, main


def finding():
    engine = Engine(tokens=20, drafts=1, context=20, priority=True)
    engine.submit("r1", [1, 2], 12, priority=1)
    engine.step(2)
    engine.submit("r2", [101, 102, 103], 7, priority=0)
    engine.step(4)
    said = [1, 2, *engine.tokens["r1"]]
    print("r1:", engine.status("r1"), "after", said, "- r2:", engine.answers.get("r2"))
    engine.submit("r3", [*said, 3], 1)  # of a client continuing from the answer to r1
    engine.step()
    alone = Engine()
    alone.submit("r3", [*said, 3], 1)
    alone.step()
    print("r3 is answered", engine.tokens["r3"], "- without a cache", alone.tokens["r3"])
    wrong = engine.tokens["r3"] != alone.tokens["r3"]
    return "r3 is answered from a block that nobody wrote" if wrong else None


main(finding)
