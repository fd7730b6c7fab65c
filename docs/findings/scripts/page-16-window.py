"""Sliding window, pages of 16: admission counts tokens, the allocator needs a page more a request.

ENV/bin/python docs/findings/scripts/page-16-window.py
"""

from harness import Engine, main


def finding():
    engine = Engine(tokens=128, page_size=16, window=8)
    for rid, tokens, output in (("r1", 1, 2), ("r2", 17, 2), ("r3", 16, 0), ("r4", 1, 0)):
        engine.submit(rid, list(range(1, tokens + 1)), output)
    try:
        engine.step(20)
    except RuntimeError as error:
        swa = engine.allocator.swa_attn_allocator
        print("sliding-window pool:", swa.available_size(), "of", swa.size, "free")
        print(type(error).__name__, str(error).splitlines()[:2])
        return "the scheduler ends"
    print("answers:", engine.answers)
    return None


main(finding)
