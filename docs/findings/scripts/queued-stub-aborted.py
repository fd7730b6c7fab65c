"""Aborting a rejected turn in the queue ends the claim of the live turn.

ENV/bin/python docs/findings/scripts/queued-stub-aborted.py
"""

from harness import Engine, main, row


def finding():
    engine = Engine(running=2)
    engine.open("s1")
    engine.submit("r1", [1, 2], 8, session="s1")
    engine.submit("p1", [7], 4)
    engine.step()
    engine.submit("r2", [3], 1, session="s1")  # rejected: the answer waits for room in the batch
    engine.step()
    print("waiting:", engine.waiting(), "- in flight:", engine.inflight("s1"))
    engine.abort("r2")
    engine.step()
    print("r1 runs:", "r1" in engine.running(), "- in flight:", engine.inflight("s1"))
    print("the engine's own check:", engine.check())
    engine.submit("r3", [5], 8, session="s1")
    try:
        engine.step(2)
    except AssertionError as error:
        return f"r3 is taken too, and the scheduler ends: AssertionError: {error}"
    rows = {rid: row(req) for rid, req in engine.running().items()}
    print("rows of the running turns:", rows)
    turns = sorted(set(rows) & {"r1", "r3"})
    return f"turns {turns} of one session run at once" if len(turns) > 1 else None


main(finding)
