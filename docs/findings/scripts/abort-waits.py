"""An abort is carried out only when somebody else's prompt has been read to its end.

ENV/bin/python docs/findings/scripts/abort-waits.py
"""

from harness import Engine, main


def finding():
    engine = Engine(chunk=2, context=64)
    engine.submit("r1", [1], 8)
    engine.submit("r2", list(range(2, 34)), 1)  # 32 tokens, in chunks of 2
    engine.step()
    engine.abort("r1")
    steps = 0
    while "r1" not in engine.answers and steps < 50:
        engine.step()
        steps += 1
    print("answers:", engine.answers, "- iterations after the abort:", steps)
    return f"an abort is answered {steps} iterations later" if steps > 8 else None


main(finding)
