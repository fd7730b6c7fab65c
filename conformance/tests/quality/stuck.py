"""The toy driver, which at a given place starts a process of its own and never ends, whatever
it is asked or told: ``stuck.py PLACE FOLDER``, a place being hello, reset, step or nowhere.

``hello-again`` is stuck from its second start on: as a driver in a process of ``--jobs`` is.
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
found = importlib.util.spec_from_file_location("toy", TOY)
assert found is not None and found.loader is not None
toy: Any = importlib.util.module_from_spec(found)
found.loader.exec_module(toy)


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
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)
        os.fork()
        (FOLDER / "reached").touch()
        while True:  # at full load
            pass
    print(json.dumps(toy.answer(line)), flush=True)  # noqa: T201  # a driver prints
    if toy.over:
        break
