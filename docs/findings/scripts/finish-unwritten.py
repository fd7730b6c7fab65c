"""With speculation, a finished turn counts KV for its last token, never written by a round.

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
    print(f"s1 remembers {len(engine.history('s1'))} tokens, kv_committed_len is {committed}")
    missing = engine.unwritten("s1")
    print("positions of these whose KV was never written:", missing)
    return (
        f"position {missing[0]} counts as committed, and nobody has written it" if missing else None
    )


main(finding)
