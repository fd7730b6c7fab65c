"""A turn continues a turn aborted in the queue, and is refused: the aborted turn had not finished.

ENV/bin/python docs/findings/scripts/branch-of-aborted.py
"""

from harness import Engine, main


def finding():
    engine = Engine()
    engine.open("s1", streaming=False)
    engine.submit("r1", [1, 2], 4, session="s1")
    engine.abort("r1")
    engine.step()
    engine.submit("r2", [3], 1, session="s1", turn="r1", drop_previous_output=True)
    engine.step(2)
    print("answered:", engine.answers)
    said = engine.answers["r2"]
    return f"r1 was answered, and r2 is told: {said}" if said.startswith("abort") else None


main(finding)
