"""A refused request is answered with a token, computed by the model from a single token 0.

ENV/bin/python docs/findings/scripts/refused-token.py
"""

from harness import Engine, main


def finding():
    engine = Engine()
    engine.submit("r1", [5, 6, 7], 2, session="nobody")  # no such session is open
    engine.step(2)
    tokens = list(engine.tokens.get("r1", ()))
    print("answers:", engine.answers, "- tokens:", tokens)
    return f"{len(tokens)} token(s) for a request that was refused" if tokens else None


main(finding)
