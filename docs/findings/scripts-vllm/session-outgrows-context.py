"""A session grows beyond the context: each of its turns is short enough, together they are not.

ENV/bin/python docs/findings/scripts-vllm/session-outgrows-context.py
"""

from harness import Engine, NoBlock, main


def finding():
    engine = Engine(tokens=20, context=12)
    for number in (1, 2):  # `InputProcessor` takes a prompt that is shorter than the context
        engine.submit(f"r{number}", [number] * 8, 2, session="s1")
        try:
            engine.step(3)
        except NoBlock as error:
            return f"the context is 12 tokens; {error}"
        print(f"r{number}:", engine.answers.get(f"r{number}"), engine.tokens.get(f"r{number}"))
    return None


main(finding)
