"""A campaign with one and two workers, in processes and on a local Ray: examples per second.

    python bench/campaign.py [--examples 960] [--record bench/results/campaign.json]

The reference engine with a known bug, all configurations; the journals have to be the same. The
time is that of the rounds, without the start of workers; what the last line says of a journal is
what `docs/how-to/run-a-campaign.md` makes its figures for a thousand workers of.
"""

from __future__ import annotations

import argparse
import json
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from machine import described, record

from slotproof.campaigns import rounds
from slotproof.campaigns.journal import NAME, canonical, lines, load
from slotproof.campaigns.state import CampaignState
from slotproof.search.causes import AcceptedFindings

ENGINE = "reference:22213-double-count"
WAYS = {
    "1 process": [],
    "2 processes": ["--jobs", "2"],
    "Ray, 1 worker": ["--ray", "local", "--jobs", "1"],
    "Ray, 2 workers": ["--ray", "local", "--jobs", "2"],
}


def campaign(examples: int, journal: Path, more: list[str]) -> dict[str, Any]:
    """The report of one."""
    argv = [sys.executable, "-m", "slotproof.cli.app", "campaign", "--engine", ENGINE]
    argv += ["--examples", str(examples), "--journal", str(journal), "--step-timeout", "600"]
    done = subprocess.run([*argv, *more, "--json"], capture_output=True, text=True, check=False)  # noqa: S603  # ours
    if done.returncode != 1:
        raise SystemExit(f"{' '.join(more)}: status {done.returncode}: {done.stderr}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def taken(journal: Path) -> float:
    """Seconds from the first task's end to the last thing that was done: workers are there."""
    times = [line["at"] for _, line in lines(journal / NAME) if line["kind"] in ("task", "shrunk")]
    return float(max(times) - min(times))


def costs(journal: Path) -> dict[str, float]:
    """What the process that writes has to do for a task, and what goes out with one."""
    text = (journal / NAME).read_bytes().splitlines(keepends=True)
    tasks = [each for each in text if b'"kind":"task"' in each]
    begun = time.perf_counter()
    state = load(journal)
    reading = time.perf_counter() - begun
    again = CampaignState(state.head)
    again.places, again.findings = state.places, state.findings
    again.read({"kind": "round", "round": 0, "tasks": rounds.deal(state.head, 9, None), "at": 0})
    sent = [len(pickle.dumps(task)) for _, task in rounds.explores(again, AcceptedFindings())]
    return {
        "kB of a task in the journal": round(sum(map(len, tasks)) / len(tasks) / 1e3, 1),
        "kB of the last tasks": round(sum(map(len, tasks[-15:])) / 15e3, 1),
        "ms to read a line into the state": round(1e3 * reading / len(text), 2),
        "kB of a task that goes out, at the end": round(sum(sent) / len(sent) / 1e3, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=960)
    parser.add_argument("--record", type=Path)
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    document: dict[str, Any] = {**described("cpu"), "engine": ENGINE, "examples": asked.examples}
    first = folder / next(iter(WAYS))
    for name, more in WAYS.items():
        report = campaign(asked.examples, folder / name, more)
        seconds = taken(folder / name)
        document[name] = {
            "seconds": round(seconds, 1),
            "examples per second": round(report["examples"] / seconds, 1),
            "commands per second": round(report["commands"] / seconds),
            "findings": sorted(
                each["id"] for cause in report["causes"] for each in cause["findings"]
            ),
            "the same journal": canonical(folder / name) == canonical(first),
        }
        print(f"{name:<16}{json.dumps(document[name])}", flush=True)
    document["journal"] = costs(first)
    shutil.rmtree(folder)
    record(asked.record, document)


if __name__ == "__main__":
    main()
