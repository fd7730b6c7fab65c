"""A scheduler that runs its own event loop, fed by hand: `live_loop.py SCRIPT`.

    PYTHONPATH=…/drivers/sglang ENV/bin/python live_loop.py SCRIPT

Stands in for a server, whose HTTP front end and tokenizer need packages that a CPU machine
has not. SCRIPT is a JSON file: `config`, `feed`: for each iteration the commands that
arrive in it, and perhaps `loop`: the name of another event loop. Prints the CPU seconds
that the loop took.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from slotproof_sglang import boot, inputs  # type: ignore[import-not-found]  # of the PYTHONPATH


def main() -> None:
    script = json.loads(Path(sys.argv[1]).read_text())
    boot.import_engine()
    scheduler = boot.build_scheduler(boot.normalise(script["config"]))
    make = inputs.Inputs()
    feed = iter(script["feed"])

    def recv_requests(*_: Any, **__: Any) -> list[Any]:
        commands = next(feed, None)
        if commands is None:
            raise SystemExit(0)
        return [make.message(command) for command in commands]

    receiver = getattr(scheduler, "request_receiver", scheduler)
    type(receiver).recv_requests = recv_requests
    for module in list(sys.modules.values()):
        sender = getattr(module, "SenderWrapper", None)
        if isinstance(sender, type) and hasattr(sender, "send_output"):
            sender.send_output = lambda *_: None  # there is nobody to send to
    started = time.process_time()
    try:
        getattr(scheduler, script.get("loop", "event_loop_normal"))()
    finally:
        sys.stdout.write(f"{time.process_time() - started:.3f}\n")


if __name__ == "__main__":
    main()
