"""With speculation: a finished turn counts KV for its last token that no round has written.

ENV/bin/python docs/findings/scripts/finish-unwritten.py
"""

from harness import Engine, figure, main


def finding():
    engine = Engine(draft=3, overlap=True)
    engine.open("s1")
    engine.submit("r1", [1, 2, 3], 2, session="s1")
    engine.step(5)
    print("answers:", engine.answers)
    slot = engine.slot("s1")
    committed = figure(slot, "kv_committed_len")
    keys = engine.allocator.get_kvcache().k_buffer[0]
    written = [bool(keys[index].any()) for index in engine.indices(slot)]
    print(f"s1 remembers {len(engine.history('s1'))} tokens, kv_committed_len is {committed}")
    print("positions whose KV was ever written:", written)
    missing = [position for position in range(committed) if not written[position]]
    return (
        f"position {missing[0]} counts as committed, and nobody has written it" if missing else None
    )


main(finding)
