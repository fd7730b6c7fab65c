"""A preempted, refused turn leaves its stand-in token in the session.

ENV/bin/python docs/findings/scripts/refused-turn-preempted.py
"""

from harness import Engine, figure, main


def finding():
    engine = Engine(rows=4, running=1, overlap=True, priority=True)
    engine.open("s1")
    engine.submit("r1", list(range(1, 61)), 4, session="s1", priority=0)
    engine.step()
    engine.submit("r2", [2], 2, priority=1)
    engine.step(8)
    print("answers:", engine.answers)
    slot, history = engine.slot("s1"), engine.history("s1")
    print("C of the slot:", slot and figure(slot, "kv_committed_len"), "- history:", history)
    engine.submit("r3", [5, 6], 2, session="s1", priority=1)
    engine.step(8)
    print("history after a turn of [5, 6]:", engine.history("s1"))
    return "a token that no client sent is in the history of the session" if history else None


main(finding)
