"""A driver that speaks the protocol, with a switch for each fault. Standard library only.

    python toy.py MODE [FILE]

FILE: the driver has the fault until this file exists, and creates it at the first fault. A
restarted driver then behaves.
"""

import json
import sys
import time
from pathlib import Path

MODE = sys.argv[1] if len(sys.argv) > 1 else "fine"
ONCE = Path(sys.argv[2]) if len(sys.argv) > 2 else None
HELLO = {
    "protocol": {"other-protocol": 3, "old-protocol": 1}.get(MODE, 2),
    "engine": {"name": "toy", "version": "7"},
    "capabilities": {
        "commands": ["open", "submit", "abort", "close", "step", "tick"],
        "pools": ["full"],
        "page_sizes": [1],
        "config": {"draft": [0]},
        "profile": "reference",
    },
}


def strikes(mode: str) -> bool:
    if mode != MODE or (ONCE is not None and ONCE.exists()):
        return False
    if ONCE is not None:
        ONCE.touch()
    return True


def snapshot(number: int, total: int) -> dict[str, object]:
    pool = {"total": total, "available": total, "evictable": 0, "protected": 0}
    return {
        "iter": number,
        "consumed": 0,
        "messages": [],
        "pools": {"full": {**pool, "free": list(range(total))}},
        "tree": {"full": []},
        "rows": {"total": 2, "free": [0, 1], "used": {}},
        "sessions": {},
        "slots": {},
        "requests": {},
        "checker": {"ran": False, "level": 0, "pools": {}, "verdict": "off", "message": ""},
    }


def say(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def step(total: int, number: int) -> dict[str, object]:
    if strikes("garbage"):
        sys.stdout.write("Segmentation fault (core dumped)\n")
        sys.stdout.flush()
    if strikes("list"):
        sys.stdout.write("[1, 2]\n")
        sys.stdout.flush()
    if strikes("hang"):
        time.sleep(600)
    if strikes("die"):
        sys.stderr.write("first line\nout of memory\n")
        sys.exit(3)
    if strikes("refuses-step"):
        return {"ok": False, "kind": "usage", "error": "not today"}
    if strikes("crash"):
        return {"ok": False, "kind": "crash", "error": "RuntimeError: boom", "trace": "line 5\n"}
    if strikes("neither"):
        return {"ok": "perhaps"}
    if strikes("wrong-id"):
        return {"id": 999, "ok": True, "result": {"snapshots": []}}
    shown = snapshot(number, total)
    if strikes("no-rows"):
        del shown["rows"]
    if strikes("negative-iter"):
        shown["iter"] = -1
    if strikes("unknown-session"):  # valid by the schema, and makes no sense
        shown["messages"] = [{"type": "finish", "rid": "r1"}]
    if strikes("lost-page"):
        shown["pools"] = {"full": {**shown["pools"]["full"], "free": [0]}}  # type: ignore[index]
    return {"ok": True, "result": {"snapshots": [shown]}}


def main() -> None:
    if MODE == "exit":
        sys.stderr.write("no such device\n")
        sys.exit(4)
    total = number = lives = 0
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, object] = {"ok": True, "result": {}}
        if request["op"] == "hello":
            if MODE == "mute":
                sys.stderr.write("waiting for a device\n")
                sys.stderr.flush()
                time.sleep(600)
            if MODE == "refuses-hello":
                say({"id": 1, "ok": False, "kind": "usage", "error": "protocol 1 only"})
                continue
            if MODE == "garbage-hello":
                sys.stdout.write("Welcome!\n")
            answer["result"] = {**HELLO, **({"engine": {}} if MODE == "bad-hello" else {})}
        elif request["op"] == "reset":
            total, number, lives = request["config"]["total_tokens"], 0, lives + 1
            if MODE == "usage":
                answer = {"ok": False, "kind": "usage", "error": "chunk can't be 4 here"}
        elif request["op"] == "do":
            answer["result"] = {"snapshots": []}
            if request["command"]["do"] == "step":
                number += 1
                answer = step(total, number)
                if MODE == "leaks" and lives > 1:  # state left over from an earlier example
                    answer["result"]["snapshots"][0]["pools"]["full"]["free"] = [0]  # type: ignore[index]
                if isinstance(answer.get("result"), dict):
                    answer["result"]["snapshots"] *= request["command"]["n"]  # type: ignore[index]
            elif request["command"]["do"] == "tick":
                answer = {"ok": True, "result": {"snapshots": [snapshot(number, total)]}}
        say({"id": request["id"], **answer})
        if request["op"] == "bye":
            break


main()
