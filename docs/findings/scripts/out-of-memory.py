"""Two sessions fill the pool: one is aborted but holds its memory, and nothing runs any more.

ENV/bin/python docs/findings/scripts/out-of-memory.py
"""

from harness import Engine, main


def finding():
    engine = Engine(tokens=32, running=3, rows=3, context=32)
    for session, first in (("s1", 1), ("s2", 11)):
        engine.open(session)
        engine.submit(f"{session}-r1", list(range(first, first + 8)), 10, session=session)
    engine.step(40)
    print("answers:", engine.answers)
    print("running:", list(engine.running()), "- waiting:", engine.waiting())
    print("available:", engine.allocator.available_size(), "of 32")
    for session in ("s1", "s2"):
        print(f"history of {session}:", engine.history(session))
        engine.close(session)
    engine.step(40)
    engine.controller.maybe_reap(1e9)
    print("after both closes: available", engine.allocator.available_size(), "of 32")
    stuck = engine.waiting() and not engine.running()
    return f"nothing runs, {engine.waiting()} waits, a close frees nothing" if stuck else None


main(finding)
