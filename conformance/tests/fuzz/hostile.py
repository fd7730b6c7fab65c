"""A hostile driver: ``hostile.py SEED``.

The toy engine. From a random message on, its answers are changed, or it dies, hangs, floods, closes
its output or leaves a child process.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.mutations import broken, changed
from tests.fuzz.odd import dumps

TOY = Path(__file__).parents[2] / "slotproof" / "drivers" / "examples" / "toy.py"
FLOOD = 30 << 20
"""Number of bytes in a flood."""


def main() -> None:
    """Serve until the end of input, correctly up to a random message."""
    spec = importlib.util.spec_from_file_location("toy", TOY)
    assert spec is not None and spec.loader is not None
    toy: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(toy)
    rng = Random(sys.argv[1])
    ways = (_changed, _changed, _changed, _broken, _broken, _flood, _end)
    strike, way = rng.choice((1, 2, 3, 4, 6, 9, 15)), rng.choice(ways)
    for number, line in enumerate(sys.stdin, 1):
        answer = toy.answer(line)
        said = json.dumps(answer).encode() + b"\n"
        if number >= strike:
            said = way(rng, answer, said)
        _write(1, said)
        if toy.over:
            break


def _write(to: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(to, rest) :]


def _changed(rng: Random, answer: Any, said: bytes) -> bytes:
    del said
    return dumps(changed(rng, answer)).encode("utf-8", "surrogatepass") + b"\n"


def _broken(rng: Random, answer: Any, said: bytes) -> bytes:
    del answer
    return broken(rng, said)


def _flood(rng: Random, answer: Any, said: bytes) -> bytes:
    """Write a flood to both outputs."""
    del answer
    _write(2, b"\x1b]0;owned\x07 out of memory\n" * (FLOOD // 27))
    return rng.choice((said, b"x" * FLOOD, b"{}\n" * 1000 + said))


def _end(rng: Random, answer: Any, said: bytes) -> bytes:
    """End the process, or write no answer or two."""
    del answer
    way = rng.randrange(6)
    if way == 0:
        sys.exit(rng.choice((0, 3, 255)))
    elif way == 1:
        os.kill(os.getpid(), rng.choice((9, 11, 15)))
    elif way == 2:
        _write(1, said[: len(said) // 2])
        time.sleep(600)
    elif way == 3:
        os.close(1)
        time.sleep(600)
    elif way == 4:  # The child holds our output open and survives.
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        os._exit(1)
    return b"" if rng.randrange(2) else said + said


if __name__ == "__main__":
    main()
