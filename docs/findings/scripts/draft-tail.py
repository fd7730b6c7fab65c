"""KV committed past the finish by a speculative round stays in the slot.

ENV/bin/python docs/findings/scripts/draft-tail.py
"""

from harness import Engine, figure, main


def finding():
    engine = Engine()
    save, pool = engine.cache.cache_finished_req, engine.scheduler.req_to_token_pool

    def overshoot(req, *args, **kwargs):
        """Leave the request as after the last round of a draft of 2. Real drafts need a GPU."""
        end = req.kv_allocated_len
        pool.req_to_token[req.req_pool_idx, end : end + 2] = engine.allocator.alloc(2)
        req.kv_allocated_len += 2
        req.kv_committed_len += 2
        req.finished_len = len(req.output_ids)
        req.output_ids.extend([1, 1])
        return save(req, *args, **kwargs)

    engine.cache.cache_finished_req = overshoot
    engine.open("s1")
    engine.submit("r1", [1, 2, 3], 3, session="s1")
    engine.step(4)
    known = len(engine.history("s1"))
    committed = figure(engine.slot("s1"), "kv_committed_len")
    print(f"the session knows {known} tokens, its slot has KV of {committed}")
    return f"KV of {committed} tokens where {known} are known" if committed > known else None


main(finding)
