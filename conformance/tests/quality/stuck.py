"""A toy driver that starts a child process and hangs at a given place: ``stuck.py PLACE FOLDER``.

PLACE: hello, reset, step or nowhere. It ignores signals. ``hello-again`` hangs from its second
start on, like a driver started by a process of ``--jobs``.
"""

import importlib.util
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

PLACE, FOLDER = sys.argv[1], Path(sys.argv[2])
sys.argv[1:] = []
TOY = Path(__file__).parents[2] / "slotproof" / "drivers" / "examples" / "toy.py"
spec = importlib.util.spec_from_file_location("toy", TOY)
assert spec is not None and spec.loader is not None
toy: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(toy)


def stuck(op: str, command: dict[str, Any]) -> bool:
    if PLACE == "hello-again" and op == "hello":
        first = FOLDER / "first"
        try:
            first.touch(exist_ok=False)
        except FileExistsError:
            return True
    return PLACE in (op, command.get("do"))


for line in sys.stdin:
    message = json.loads(line)
    if stuck(message["op"], message.get("command") or {}):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.fork()
        (FOLDER / "reached").touch()
        while True:  # at full load
            pass
    print(json.dumps(toy.answer(line)), flush=True)  # noqa: T201  # a driver prints
    if toy.over:
        break
