"""A turn ends while its next token is in flight: the token goes to the session or its next turn.

ENV/bin/python docs/findings/scripts-vllm/stop-ahead.py
"""

from harness import Engine, main


def finding():
    alone = Engine()
    alone.submit("r1", [1, 2], 3)
    alone.step(3)
    stop = alone.tokens["r1"][1]
    engine = Engine(ahead=True)
    engine.submit("r1", [1, 2], 6, session="s1", stop=[stop])
    engine.step(4)
    told = engine.tokens["r1"]
    print("r1 was answered", told, "by", engine.answers.get("r1"))
    print("sent after its end:", engine.late)
    engine.submit("r2", [10, 11, 12], 1, session="s1")
    engine.step(6)
    said = [1, 2, *told[:-1], 10, 11, 12]  # the last token is dropped
    print("s1 has said", said, "- KV of s1:", engine.reads("s1")[: len(said)])
    alone.submit("r2", said, 1)
    alone.step()
    print("r2 is answered", engine.tokens.get("r2"), "- of its tokens alone", alone.tokens["r2"])
    wrong = engine.tokens.get("r2") != alone.tokens["r2"]
    return "r2 is answered from the KV of other tokens" if wrong else None


main(finding)
