"""A turn ends inside a speculative round: tokens accepted after its end count as the session's.

ENV/bin/python docs/findings/scripts-vllm/stop-in-round.py
"""

from harness import Engine, main


def finding():
    engine = Engine(drafts=4)
    engine.submit("r1", [1, 2], 3, session="s1")
    engine.step(2)  # the second token is a round, with two tokens more than enough
    told = engine.tokens["r1"]
    print("r1 was answered", told, "by", engine.answers.get("r1"))
    engine.submit("r2", [10, 11, 12, 13, 14], 1, session="s1")
    engine.step()
    said = [1, 2, *told[:-1], 10, 11, 12, 13, 14]  # the last token is dropped
    print("s1 has said", said, "- KV of s1:", engine.reads("s1")[: len(said)])
    alone = Engine()
    alone.submit("r2", said, 1)
    alone.step()
    print("r2 is answered", engine.tokens["r2"], "- of its tokens alone", alone.tokens["r2"])
    wrong = engine.tokens["r2"] != alone.tokens["r2"]
    return "r2 is answered from the KV of tokens that nobody said" if wrong else None


main(finding)
