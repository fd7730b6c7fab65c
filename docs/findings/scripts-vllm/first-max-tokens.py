"""Every turn of a session runs with the max_tokens of the first.

ENV/bin/python docs/findings/scripts-vllm/first-max-tokens.py
"""

from harness import Engine, main


def finding():
    engine = Engine()
    for number, most in enumerate((2, 1, 5), start=1):
        engine.submit(f"r{number}", [number], most, session="s1")
        engine.step(6)
        got = len(engine.tokens[f"r{number}"])
        print(f"r{number}: max_tokens {most}, {got} tokens, {engine.answers[f'r{number}']}")
    counts = [len(engine.tokens[f"r{number}"]) for number in (1, 2, 3)]
    return f"2, 1 and 5 were asked for, {counts} came" if counts != [2, 1, 5] else None


main(finding)
