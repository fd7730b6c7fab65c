"""A turn longer than the context destroys its session's slot.

ENV/bin/python docs/findings/scripts/doomed-turn.py
"""

from harness import Engine, figure, main


def finding():
    engine = Engine()
    engine.open("s1")
    engine.submit("r1", [1, 2], 2, session="s1")
    engine.step(2)
    engine.submit("r2", list(range(1, 45)), 1, session="s1")
    engine.step(2)
    print("answers:", engine.answers)
    slot = engine.slot("s1")
    committed, allocated, protected = (
        figure(slot, name)
        for name in ("kv_committed_len", "kv_allocated_len", "cache_protected_len")
    )
    print(f"slot: committed {committed}, allocated {allocated}, protected {protected}")
    print(f"it holds {allocated - protected} tokens; the history is {engine.history('s1')}")
    print("the engine's own check:", engine.check())
    return "the slot is shorter than its protected prefix" if allocated < protected else None


main(finding)
