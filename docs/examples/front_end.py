"""Check of a front end: clients must receive the engine's tokens. Adapt the script to your own.

    python docs/examples/front_end.py HEARD LOG

| clause | |
|---|---|
| `CLIENT-ANSWER` | A client that stays gets one final answer if the engine answers its request. |
| `CLIENT-TOKENS` | A client receives the tokens produced by the engine for the client's request. |

HEARD has one JSON object a line, in the order of arrival: `client`, `rid`, the `tokens` so far and
the `reason`. The reason is null in a chunk. In a final answer, the reason is the engine's finish
reason, or "abort" for an error. The reason is "left" once the client is gone. LOG is an event log
with tokens, in one file, recorded by SGLang's recorder with `SLOTPROOF_RECORD_TOKENS=1`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Message = dict[str, Any]


def read(path: str) -> list[Message]:
    """Return the JSON objects of a file."""
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def produced(log: list[Message]) -> dict[str, Message]:
    """Return the engine's final answers by request ID."""
    messages = [message for line in log for message in line.get("snapshot", {}).get("messages", ())]
    return {message["rid"]: message for message in messages if message["type"] == "finish"}


def violations(heard: list[Message], answers: dict[str, Message]) -> Iterator[str]:
    """Yield a line for each violation."""
    ended: set[str] = set()
    for message in heard:
        rid, tokens, reason = message["rid"], message.get("tokens", []), message["reason"]
        where, answer = f"{rid} of client {message['client']}", answers.get(rid)
        if rid in ended:
            yield f"CLIENT-ANSWER: {where}: a message came after its end"
        if reason is not None:
            ended.add(rid)
        if reason not in (None, "left", "abort" if answer is None else answer["reason"]):
            yield f"CLIENT-ANSWER: {where}: heard {reason}, the engine's answer is {answer}"
        whole = answer["tokens"] if answer else tokens
        if tokens != (whole if reason in ("length", "stop") else whole[: len(tokens)]):
            yield f"CLIENT-TOKENS: {where}: heard {tokens}, the engine produced {whole}"
    for rid in [answered for answered in answers if answered not in ended]:
        yield f"CLIENT-ANSWER: {rid}: the engine answered, the client heard no final answer"


if __name__ == "__main__":
    lines = list(violations(read(sys.argv[1]), produced(read(sys.argv[2]))))
    print("\n".join(lines) or "conforms")
    sys.exit(bool(lines))
