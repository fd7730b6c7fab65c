"""A preempted request resumes while its output is in flight: it gets the same token twice.

ENV/bin/python docs/findings/scripts-vllm/resumed-in-flight.py
"""

from harness import Engine, main


def finding():
    engine = Engine(tokens=3, context=32, stages=3)
    engine.submit("r1", [1], 2)
    engine.step()
    engine.submit("r2", [2], 1)
    engine.step()
    engine.submit("r3", [3], 2)
    engine.step(8)  # r1 preempts r3, r2 ends, r3 resumes, then r3's output arrives
    print("r3 is answered", engine.tokens["r3"], "by", engine.answers.get("r3"))
    alone = Engine(tokens=3, context=32)
    alone.submit("r3", [3], 2)
    alone.step(2)
    print("of its tokens alone", alone.tokens["r3"])
    wrong = engine.tokens["r3"] != alone.tokens["r3"]
    return "r3 is answered the same token twice" if wrong else None


main(finding)
