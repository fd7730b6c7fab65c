"""With speculation and branches, allocation ahead passes the end of a row, into the next row.

ENV/bin/python docs/findings/scripts/rows-too-narrow.py
"""

from harness import Engine, main, row


def finding():
    engine = Engine(tokens=128, draft=3, topk=4, overlap=True)
    engine.submit("r1", [1, 2, 3], 12)
    engine.step()
    (first,) = engine.running().values()
    engine.submit("r2", list(range(10, 43)), 8)  # 33 tokens and 8 new tokens, of 48 allowed
    table = engine.scheduler.req_to_token_pool.req_to_token
    before = table[row(first), :3].tolist()
    engine.step(3)
    second = engine.running()["r2"]
    print("rows:", row(first), "and", row(second), "- width:", table.shape[1])
    print("r2 has allocated", second.kv.kv_allocated_len, "positions")
    after = table[row(first), :3].tolist()
    print("the KV indices of r1's prompt:", before, "and now", after)
    return f"r1 reads KV of r2: {after} in place of {before}" if after != before else None


main(finding)
