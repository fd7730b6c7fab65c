"""With overlap scheduling, aborting a rejected turn releases the slot of the live turn.

ENV/bin/python docs/findings/scripts/stub-takes-slot.py
"""

from harness import Engine, main


def finding():
    engine = Engine(overlap=True)
    engine.open("s1")
    engine.submit("r1", [1], 1, session="s1")
    engine.step()  # r1 is computed, its result comes an iteration later
    engine.submit("r2", [2, 3], 2, session="s1")  # rejected: r1 is in flight
    engine.step()
    print("answers:", engine.answers, "- s1 has a slot:", engine.slot("s1") is not None)
    engine.step()
    print("answers:", engine.answers, "- s1 has a slot:", engine.slot("s1") is not None)
    engine.step(2)
    print("the engine's own check:", engine.check())
    available, tree, held = engine.sum()
    print(f"available {available}, in the tree {tree}, in slots {held}, of 64")
    rows = engine.scheduler.req_to_token_pool
    print(f"rows: {len(rows.free_slots)} of {rows.size} are free")
    lost = 64 - available - tree - held
    return f"{lost} token(s) and a row belong to nobody, the session lost its KV" if lost else None


main(finding)
