"""An aborted turn stays in the history, its KV in the slot.

ENV/bin/python docs/findings/scripts/abort-running.py
"""

from harness import Engine, main


def finding():
    engine = Engine()
    engine.open("s1")
    engine.submit("r1", [1, 2, 3], 8, session="s1")
    engine.step(3)
    engine.abort("r1")
    engine.step(2)
    print("answers:", engine.answers)
    engine.submit("r2", [9], 8, session="s1")
    engine.step()
    prompt = [int(x) for x in engine.running()["r2"].origin_input_ids]
    print("prompt of the next turn:", prompt, "- its client sent [9]")
    return "the aborted turn stays in the history" if prompt != [9] else None


main(finding)
