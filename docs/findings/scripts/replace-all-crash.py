"""A turn replacing the session's whole history ends the scheduler.

ENV/bin/python docs/findings/scripts/replace-all-crash.py
"""

from harness import Engine, main


def finding():
    engine = Engine()
    engine.open("s1", streaming=False)
    engine.submit("r1", [1, 2], 1, session="s1")
    engine.step(2)
    try:
        engine.submit("r2", [3], 1, session="s1", replace=True)
    except RuntimeError as error:
        return f"the scheduler ends: {error}"
    engine.step(2)
    print("answered:", engine.answers)
    return None


main(finding)
