"""A request preempts a session's turn for its row, but the session keeps the row.

ENV/bin/python docs/findings/scripts/preemptor-without-row.py
"""

from harness import Engine, main, row


def finding():
    engine = Engine(rows=1, running=1, priority=True)
    engine.open("s1")
    engine.submit("r1", [1], 8, session="s1", priority=0)
    engine.step(2)
    print(
        "running:",
        list(engine.running()),
        "- free rows:",
        len(engine.scheduler.req_to_token_pool.free_slots),
    )
    engine.submit("r2", [2], 2, priority=1)
    try:
        engine.step(4)
    except RuntimeError as error:
        print("row of the slot:", row(engine.slot("s1")))
        return f"the scheduler ends: RuntimeError: {error}"
    return None


main(finding)
