"""Cost of the SGLang recorder: a scheduler's own event loop with and without recording.

    python bench/recorder.py --python ENV/bin/python [--rounds 3] [--record FILE]

Each round is the event loop of a fresh process: a one-layer model on one CPU core, a pool of 4096
tokens, four sessions in turn, fed by hand. Rounds alternate between the settings. The cost of an
iteration is given at the median, in two ways. The first is the time within the recorder's own
wrappers, less the time of the engine's methods called by the wrappers. The second is the extra time
of a whole iteration compared with the recorder off. The second adds costs left out by the first
(counting locks, reading the engine's check) and noise of the machine. The lowest round is used.

With `--batch 16`, sixteen sessions run at a time: nearly every iteration decodes sixteen tokens.
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
from statistics import median, quantiles

ROOT = Path(__file__).parents[1] / "conformance" / "slotproof"
LOOP = ROOT / "tests" / "sglang" / "live_loop.py"
DRIVER = ROOT / "drivers" / "sglang"
SETTINGS: dict[str, dict[str, str]] = {
    "off": {},
    "everything in every line": {"SLOTPROOF_RECORD_EVERY": "1", "SLOTPROOF_RECORD_PAGES": "1"},
    "figures in every line": {"SLOTPROOF_RECORD_EVERY": "1", "SLOTPROOF_RECORD_PAGES": "0"},
    "figures in every 16th line": {"SLOTPROOF_RECORD_EVERY": "16", "SLOTPROOF_RECORD_PAGES": "0"},
    "figures in every 100th line": {"SLOTPROOF_RECORD_EVERY": "100", "SLOTPROOF_RECORD_PAGES": "0"},
}


def script(turns: int, batch: int) -> dict[str, object]:
    """Return a script of sessions with ten turns of 8 tokens and 24 answers, some at a time."""
    feed: list[list[dict[str, object]]] = []
    sessions = 2 * batch
    for turn in range(turns):
        block = [f"s{turn // (10 * sessions)}-{number}" for number in range(sessions)]
        if turn % (10 * sessions) == 0:
            feed.append([{"do": "open", "session": name} for name in block])
        tokens = [1 + (turn * 8 + position) % 250 for position in range(8)]
        feed.append(
            [
                {
                    "do": "submit",
                    "session": block[turn % sessions],
                    "rid": f"r{turn}",
                    "tokens": tokens,
                    "max_new": 24,
                    "stop": [],
                }
            ]
        )
        feed += [[]] * (26 // batch)
        if turn % (10 * sessions) == 10 * sessions - 1:
            feed += [[]] * 30
            feed.append([{"do": "close", "session": name} for name in block])
    feed += [[]] * 30
    config = {
        "page_size": 4,
        "total_tokens": 4096 * max(1, batch // 2),
        "context_len": 512,
        "max_running": 4 * batch,
    }
    return {"config": config, "feed": feed, "measure": True}


def measure(
    python: str, path: Path, folder: Path, settings: dict[str, str]
) -> tuple[dict[str, float], str]:
    """Return the figures of a round, and the version of the build: empty without a log."""
    for file in folder.glob("log*"):
        file.unlink()
    environment = {**os.environ, "PYTHONPATH": str(DRIVER), **settings}
    if settings:
        environment["SLOTPROOF_RECORD"] = str(folder / "log")
    done = subprocess.run(  # noqa: S603  # the user names the interpreter
        [python, str(LOOP), str(path)], env=environment, capture_output=True, text=True, check=True
    )
    if settings and ("recording to" not in done.stderr or "recorder off" in done.stderr):
        raise SystemExit("the recorder stayed off: " + done.stderr[-300:])
    took = json.loads(done.stdout.splitlines()[-1])
    files = sorted(folder.glob("log*"))
    figures = {
        "cpu_seconds": took["seconds"],
        "iteration_us": median(took["iterations"]) / 1000,
        "recorder_us": median(took["recorder"]) / 1000,
        "recorder_p99_us": quantiles(took["recorder"], n=100)[98] / 1000,
        "bytes_per_iteration": sum(file.stat().st_size for file in files) // len(took["recorder"]),
    }
    if not files:
        return figures, ""
    with files[0].open() as lines:
        return figures, json.loads(next(lines))["engine"]["version"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="of an environment with SGLang")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=400)
    parser.add_argument("--batch", type=int, default=2, help="requests at a time")
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    work = script(args.turns, args.batch)
    best: dict[str, dict[str, float]] = {}
    version = ""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "script.json").write_text(json.dumps(work))
        for _ in range(args.rounds):
            for what, settings in SETTINGS.items():
                figures, build = measure(args.python, folder / "script.json", folder, settings)
                known = best.setdefault(what, figures)
                best[what] = {name: min(known[name], value) for name, value in figures.items()}
                version = build or version
    off = best["off"]["iteration_us"]
    rows = [
        {
            "recorder": what,
            **{name: round(value, 3 if name == "cpu_seconds" else 1) for name, value in it.items()},
            "longer_by_us": round(it["iteration_us"] - off, 1),
        }
        for what, it in best.items()
    ]
    for row in rows:
        print(
            f"{row['recorder']:<28} {row['recorder_us']:>7} us an iteration at the median, "
            f"{row['recorder_p99_us']:>7} at the 99th; longer by {row['longer_by_us']:>6} us of "
            f"{off:.0f}; {row['bytes_per_iteration']:>6} bytes"
        )
    if args.record:
        document = {
            "what": "what the recorder costs an iteration of a scheduler's own event loop",
            "command": f"python bench/recorder.py --python ENV --rounds {args.rounds} "
            f"--turns {args.turns} --batch {args.batch}",
            "date": time.strftime("%Y-%m-%d"),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, CPU only",
            "sglang": version,
            "settings": rows,
        }
        args.record.parent.mkdir(parents=True, exist_ok=True)
        args.record.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
