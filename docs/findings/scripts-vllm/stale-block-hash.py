"""A prompt that was never computed is answered from the KV of another prompt.

ENV/bin/python docs/findings/scripts-vllm/stale-block-hash.py
"""

from harness import Engine, main


def finding():
    engine = Engine()
    engine.submit("r1", [1], 1, session="s1")
    engine.step()
    (dropped,) = engine.tokens["r1"]
    engine.submit("r2", [9], 1, session="s1")  # takes the place of the sampled token
    engine.step()
    print("r1 sampled", dropped, "- KV of s1:", engine.reads("s1"))
    engine.submit("r3", [1, dropped, 3], 2)  # of another client
    engine.step()
    print("r3 has the prompt", [1, dropped, 3], "and reads the KV of", engine.reads("r3")[:3])
    engine.step()
    alone = Engine()
    alone.submit("r3", [1, dropped, 3], 2)
    alone.step(2)
    print("r3 is answered", engine.tokens["r3"], "- without a cache", alone.tokens["r3"])
    wrong = engine.tokens["r3"] != alone.tokens["r3"]
    return "r3 is answered from the KV of s1's prompt" if wrong else None


main(finding)
