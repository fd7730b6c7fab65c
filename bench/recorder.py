"""What the SGLang recorder costs: a scheduler's own event loop with and without it.

    python bench/recorder.py --python ENV/bin/python [--rounds 3] [--record FILE]

Each figure is the CPU time of the event loop of a fresh process (a one-layer model on one
CPU core, pool of 4096 tokens, four sessions in turn, fed by hand); rounds alternate between
the settings, and ratios are of the fastest rounds in one run. What the events cost is a
part of every setting. Nothing is said here of what reading tensors of a GPU costs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1] / "conformance"
LOOP = ROOT / "tests" / "sglang" / "live_loop.py"
RECORDER = ROOT / "drivers" / "sglang" / "recorder"
SETTINGS: dict[str, dict[str, str]] = {
    "off": {},
    "everything in every line": {"SLOTPROOF_RECORD_EVERY": "1", "SLOTPROOF_RECORD_PAGES": "1"},
    "figures in every line": {"SLOTPROOF_RECORD_EVERY": "1", "SLOTPROOF_RECORD_PAGES": "0"},
    "figures in every 16th line": {"SLOTPROOF_RECORD_EVERY": "16", "SLOTPROOF_RECORD_PAGES": "0"},
    "figures in every 100th line": {"SLOTPROOF_RECORD_EVERY": "100", "SLOTPROOF_RECORD_PAGES": "0"},
}


def script(turns: int) -> dict[str, object]:
    """Four sessions that take turns of 8 tokens and 24 answers, two at a time; ten turns each."""
    feed: list[list[dict[str, object]]] = []
    for turn in range(turns):
        block = [f"s{turn // 40}-{number}" for number in range(4)]
        if turn % 40 == 0:
            feed.append([{"do": "open", "session": name} for name in block])
        tokens = [1 + (turn * 8 + position) % 250 for position in range(8)]
        feed.append(
            [
                {
                    "do": "submit",
                    "session": block[turn % 4],
                    "rid": f"r{turn}",
                    "tokens": tokens,
                    "max_new": 24,
                    "stop": [],
                }
            ]
        )
        feed += [[]] * 13
        if turn % 40 == 39:
            feed += [[]] * 20
            feed.append([{"do": "close", "session": name} for name in block])
    feed += [[]] * 20
    config = {"page_size": 4, "total_tokens": 4096, "context_len": 512, "max_running": 8}
    return {"config": config, "feed": feed}


def measure(
    python: str, path: Path, folder: Path, settings: dict[str, str]
) -> tuple[float, int, str]:
    """(CPU seconds of the loop, bytes of the log, version of the build: empty without a log)."""
    log = folder / "log.jsonl"
    log.unlink(missing_ok=True)
    environment = {**os.environ, **settings}
    if settings:
        environment |= {"PYTHONPATH": str(RECORDER), "SLOTPROOF_RECORD": str(log)}
    done = subprocess.run(  # noqa: S603  # the user names the interpreter
        [python, str(LOOP), str(path)], env=environment, capture_output=True, text=True, check=True
    )
    if settings and "recording to" not in done.stderr:
        raise SystemExit("the recorder stayed off: " + done.stderr[-300:])
    seconds = float(done.stdout.split()[-1])
    if not settings:
        return seconds, 0, ""
    with log.open() as lines:
        version = json.loads(next(lines))["engine"]["version"]
    return seconds, log.stat().st_size, version


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="of an environment with SGLang")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=400)
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    work = script(args.turns)
    feed = work["feed"]
    assert isinstance(feed, list)
    best: dict[str, float] = {}
    sizes: dict[str, int] = {}
    version = ""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "script.json").write_text(json.dumps(work))
        for _ in range(args.rounds):
            for what, settings in SETTINGS.items():
                seconds, size, found = measure(
                    args.python, folder / "script.json", folder, settings
                )
                best[what] = min(best.get(what, seconds), seconds)
                sizes[what] = size
                version = found or version
    rows = [
        {
            "recorder": what,
            "cpu_seconds": round(seconds, 3),
            "ratio": round(seconds / best["off"], 2),
            "bytes_per_iteration": sizes[what] // len(feed),
        }
        for what, seconds in best.items()
    ]
    for row in rows:
        print(
            f"{row['recorder']:<28} {row['cpu_seconds']:>7} s  x {row['ratio']:<5} "
            f"{row['bytes_per_iteration']:>6} bytes per iteration"
        )
    if args.record:
        document = {
            "what": "a scheduler's own event loop with the recorder off and on",
            "command": f"python bench/recorder.py --python ENV --rounds {args.rounds} "
            f"--turns {args.turns}",
            "date": time.strftime("%Y-%m-%d"),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, CPU only",
            "sglang": version,
            "iterations": len(feed),
            "settings": rows,
        }
        args.record.parent.mkdir(parents=True, exist_ok=True)
        args.record.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
