"""A forced flush preempts all running requests, then fails because of a paused session.

ENV/bin/python docs/findings/scripts-vllm/flush-paused-session.py
"""

from harness import Engine, main


def finding():
    engine = Engine()
    engine.submit("r1", [1, 2, 3], 1, session="s1")
    engine.step()
    engine.submit("r2", [11, 12], 9)
    engine.step(2)
    engine.show()
    try:
        engine.flush_all()
    except RuntimeError as error:
        engine.show()
        return f"the flush preempts r2, flushes nothing and raises: {error}"
    return None


main(finding)
