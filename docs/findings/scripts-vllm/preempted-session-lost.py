"""A session is preempted while the last token of its turn is in flight: its next turn never runs.

ENV/bin/python docs/findings/scripts-vllm/preempted-session-lost.py
"""

from harness import Engine, main


def finding():
    engine = Engine(tokens=32, block_size=4, ahead=True)
    engine.submit("r1", list(range(1, 28)), 4)
    engine.step()
    engine.submit("r2", [50], 1, session="s1")
    engine.submit("r3", [60], 1, session="s1")  # waits for r2
    engine.step(30)
    print("answered:", dict(engine.answers), "- of s1:", engine.tokens.get("r2"))
    request = engine.scheduler.requests.get("s1")
    queues = {"running": engine.scheduler.running, "waiting": list(engine.scheduler.waiting)}
    if request is not None:
        print("s1 is", request.status.name, "- its tokens:", list(request.all_token_ids))
        print("it stands in", [name for name, queue in queues.items() if request in queue])
    lost = "r3" not in engine.answers
    return "nobody ever runs r3, and r1 has long ended" if lost and "r1" in engine.answers else None


main(finding)
