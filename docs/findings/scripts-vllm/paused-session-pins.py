"""A paused session blocks a plain request forever.

ENV/bin/python docs/findings/scripts-vllm/paused-session-pins.py
"""

from harness import Engine, main


def finding():
    engine = Engine(tokens=20, context=20)
    engine.submit("r1", range(1, 8), 1, session="s1")
    engine.step()
    print("r1:", engine.answers, "- free:", engine.free(), "of 20")
    engine.submit("r2", range(11, 26), 2)  # 15 + 1 of 20: would fit without the session
    engine.step(50)
    print("s1:", engine.status("s1"), "- r2:", engine.status("r2"), "- answers:", engine.answers)
    return "nothing runs, r2 waits, nobody is told" if "r2" not in engine.answers else None


main(finding)
