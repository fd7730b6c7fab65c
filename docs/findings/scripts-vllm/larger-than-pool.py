"""A request that is larger than the KV cache blocks all requests behind it forever.

ENV/bin/python docs/findings/scripts-vllm/larger-than-pool.py
"""

from harness import Engine, main


def finding():
    engine = Engine(tokens=20, context=32)  # as with `--num-gpu-blocks-override`
    engine.submit("r1", range(1, 25), 4)  # 24 + 4 of 32: the front end accepts it
    engine.submit("r2", [101, 102], 2)
    engine.step(50)
    engine.show()
    return "nothing runs, r1 and r2 wait, nobody is told" if not engine.answers else None


main(finding)
