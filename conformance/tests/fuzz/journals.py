"""Changed journals, and the commands that read them: a report, a resumed run."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tests.fuzz import seeds
from tests.fuzz.files import joined, reordered
from tests.fuzz.given import FOLDER, OUT, Input, any_odd, text_changed
from tests.fuzz.mutations import broken

REPORT = ("report", FOLDER, "--out", OUT)


def reading(data: bytes) -> list[tuple[str, ...]]:
    """Return the command lines for a journal. A journal of the reference engine is also resumed."""
    head = json.loads(data.splitlines()[0])
    on = ("run", "--all", "--out", FOLDER, "--examples", "6", *seeds.CAMPAIGN)
    goes_on = [on] if head["subject"]["spec"] == "reference" else []
    return [REPORT, (*REPORT, "--json"), *goes_on]


def journal(rng: Random) -> Input:
    """A folder for `report` and `run`."""
    data = rng.choice(list(seeds.files("journals").values()))
    argv, lines = rng.choice(reading(data)), data.splitlines()
    way = rng.randrange(10)
    if way == 0:
        return Input("journals", broken(rng, data), argv)
    if way < 4:
        reordered(rng, lines)
        return Input("journals", joined(lines), argv)
    index = rng.randrange(len(lines))
    lines[index] = text_changed(rng, lines[index], _sense)
    return Input("journals", joined(lines), argv)


def _sense(rng: Random, line: Any) -> Any:
    """Change a task, an example, a finding or a figure."""
    number = rng.choice((0, 1, 2, 3, 1000, 10**9, 10**18, -1))
    way = rng.randrange(6)
    result = line.get("result", line)
    candidates = result.get("smaller", result.get("findings", ()))
    findings = [finding for finding in candidates if finding]
    if way == 0 and findings:
        finding = rng.choice(findings)
        part = rng.choice((finding, finding["mark"], finding["trace"]))
        part[rng.choice(list(part))] = rng.choice((any_odd(rng), number))
    elif way == 1:
        result[rng.choice(list(result))] = rng.choice((any_odd(rng), number, []))
    elif way == 2 and "coverage" in result:
        part = result["coverage"]
        part[rng.choice(list(part))] = rng.choice((any_odd(rng), number, {}, "ffff"))
    elif way == 3 and "configs" in line:
        part = rng.choice(list(line["configs"].values()))
        part[rng.choice(list(part))] = rng.choice((any_odd(rng), number))
    elif way == 4 and "subject" in line:
        part = line["subject"]["capabilities"]
        part[rng.choice(list(part))] = rng.choice((any_odd(rng), number, []))
    else:
        line[rng.choice(list(line))] = rng.choice((any_odd(rng), number))
    return line
