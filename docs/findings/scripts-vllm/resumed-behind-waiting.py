"""A session's next turn waits after a request that waits for the session's own memory.

ENV/bin/python docs/findings/scripts-vllm/resumed-behind-waiting.py
"""

from harness import Engine, main


def finding():
    engine = Engine(tokens=20, context=20)
    engine.submit("r1", range(1, 8), 3, session="s1")
    engine.step()
    engine.submit("r2", range(11, 26), 2)  # 15 of 20: not while s1 has its 10
    engine.submit("r3", [30], 3, session="s1")  # 3 more tokens: enough room
    engine.close("s1")
    engine.step(50)
    print("free:", engine.free(), "of 20, s1 holds", len(engine.blocks("s1")))
    print("s1:", engine.status("s1"), "- r2:", engine.status("r2"), "- answers:", engine.answers)
    return f"{', '.join(engine.waiting())} wait, nothing runs" if engine.waiting() else None


main(finding)
