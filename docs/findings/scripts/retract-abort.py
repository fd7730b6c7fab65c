"""A turn aborted after a retract stays in the history.

ENV/bin/python docs/findings/scripts/retract-abort.py
"""

from harness import Engine, main


def finding():
    engine = Engine(running=1)
    engine.open("s1")
    engine.submit("r1", [1, 2], 8, session="s1")
    engine.step(3)
    engine.retract()
    engine.abort("r1")
    print("answers:", engine.answers)
    history = engine.history("s1")
    engine.submit("r2", [3], 8, session="s1")
    engine.step()
    prompt = [int(x) for x in engine.running()["r2"].origin_input_ids]
    print("prompt of the next turn:", prompt, "- its client sent [3]")
    print("the engine's own check:", engine.check())
    return f"the history of the aborted turn stays: {history}" if prompt != [3] else None


main(finding)
