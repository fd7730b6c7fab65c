"""Two resumed sessions each hold memory needed by the other: both wait forever.

ENV/bin/python docs/findings/scripts-vllm/resumed-sessions-deadlock.py
"""

from harness import Engine, main


def finding():
    engine = Engine(tokens=20, context=20)
    for number in (1, 2):
        engine.submit(f"r{number}", range(10 * number, 10 * number + 8), 1, session=f"s{number}")
    engine.step()
    print("answers:", engine.answers, "- free:", engine.free(), "of 20")
    for number in (3, 4):  # 6 more for each: either alone would fit
        session = f"s{number - 2}"
        engine.submit(f"r{number}", range(10 * number, 10 * number + 6), 1, session=session)
    engine.step(50)
    for session in ("s1", "s2"):
        print(f"{session}: {engine.status(session)}, holds {len(engine.blocks(session))} of 20")
    return f"{', '.join(engine.waiting())} wait, nothing runs" if engine.waiting() else None


main(finding)
