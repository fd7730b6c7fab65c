"""A prompt in chunks waits forever for sliding-window memory that its own prefix locks.

ENV/bin/python docs/findings/scripts/never-admitted.py
"""

from harness import Engine, main


def finding():
    engine = Engine(window=6, swa_tokens=12, chunk=6)
    engine.submit("r1", list(range(1, 13)), 2)
    engine.step(50)
    both, tree = engine.allocator, engine.cache
    print("answers:", engine.answers, "- running:", list(engine.running()))
    print("window pool:", both.swa_available_size(), "free,", tree.swa_protected_size(), "locked")
    waits = engine.scheduler.chunked_req is not None
    return "the prompt's last chunk never runs" if waits else None


main(finding)
