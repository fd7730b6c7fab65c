"""Sliding window: a prompt prefilled in two chunks is in the tree, but not locked.

ENV/bin/python docs/findings/scripts/swa-chunked-prompt.py
"""

from harness import Engine, main


def finding():
    engine = Engine(page_size=4, window=6, chunk=8)
    engine.open("s1")
    engine.submit("r1", list(range(1, 16)), 2, session="s1")
    engine.step(2)
    check = engine.check()
    print("the engine's own check:", check)
    return "the prompt's pages are in the tree and private" if check != "ok" else None


main(finding)
