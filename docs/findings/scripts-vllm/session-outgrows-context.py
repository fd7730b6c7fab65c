"""A session exceeds the context: each turn is short enough, but their sum is not.

ENV/bin/python docs/findings/scripts-vllm/session-outgrows-context.py
"""

from harness import Engine, NoBlock, main


def finding():
    engine = Engine(tokens=20, context=12)
    for number in (1, 2):  # `InputProcessor` accepts a prompt shorter than the context
        engine.submit(f"r{number}", [number] * 8, 2, session="s1")
        try:
            engine.step(3)
        except NoBlock as error:
            return f"the context is 12 tokens; {error}"
        print(f"r{number}:", engine.answers.get(f"r{number}"), engine.tokens.get(f"r{number}"))
    return None


main(finding)
