"""The example of a front end's clauses passes and fails on a log of the fuzz corpus."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "docs" / "examples" / "front_end.py"
LOG = ROOT / "conformance" / "tests" / "fuzz" / "corpus" / "logs" / "two-turns.jsonl"
"""The engine answers r1 with 242, 179, 115 and r2 with 197, 247."""

Message = dict[str, Any]


def message(rid: str, tokens: list[int], reason: str | None = None) -> Message:
    return {"client": "c1", "rid": rid, "tokens": tokens, "reason": reason}


CHUNK, FIRST = message("r1", [242, 179]), message("r1", [242, 179, 115], "length")
SECOND, LEFT = message("r2", [197, 247], "length"), message("r2", [], "left")
REFUSED = message("r3", [], "abort")

CASES: dict[str, tuple[list[Message], list[str]]] = {
    "what the engine produced": ([CHUNK, FIRST, SECOND], []),
    "a client that left": ([CHUNK, FIRST, LEFT], []),
    "a refusal by the front end": ([FIRST, REFUSED, SECOND], []),
    "an unfinished request": ([FIRST, SECOND, message("r3", [7])], []),
    "no answer": ([FIRST], ["CLIENT-ANSWER"]),
    "chunks without an end": ([CHUNK, SECOND], ["CLIENT-ANSWER"]),
    "two answers": ([FIRST, FIRST, SECOND], ["CLIENT-ANSWER"]),
    "a chunk after the answer": ([FIRST, CHUNK, SECOND], ["CLIENT-ANSWER"]),
    "an abort in place of the answer": ([FIRST, message("r2", [], "abort")], ["CLIENT-ANSWER"]),
    "an answer that no engine gave": (
        [FIRST, SECOND, message("r3", [7], "stop")],
        ["CLIENT-ANSWER"],
    ),
    "another request's tokens": (
        [FIRST, message("r2", [242, 179, 115], "length")],
        ["CLIENT-TOKENS"],
    ),
    "a missing token": ([FIRST, message("r2", [197], "length")], ["CLIENT-TOKENS"]),
    "a wrong chunk": ([message("r1", [179]), FIRST, SECOND], ["CLIENT-TOKENS"]),
    "too many tokens before leaving": ([FIRST, {**LEFT, "tokens": [7]}], ["CLIENT-TOKENS"]),
}


@pytest.mark.parametrize("case", CASES)
def test_clauses_hold_or_fail(case: str) -> None:
    heard, clauses = CASES[case]
    example = runpy.run_path(str(EXAMPLE))
    answers = example["produced"](example["read"](str(LOG)))
    violated = example["violations"](heard, answers)
    assert [line.partition(":")[0] for line in violated] == clauses


@pytest.mark.parametrize(("heard", "status"), [([FIRST, SECOND], 0), ([FIRST], 1)])
def test_the_program_reads_two_files(heard: list[Message], status: int, tmp_path: Path) -> None:
    path = tmp_path / "heard.jsonl"
    path.write_text("".join(json.dumps(message) + "\n" for message in heard))
    argv = [sys.executable, str(EXAMPLE), str(path), str(LOG)]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (status, "")
    assert done.stdout == (
        "CLIENT-ANSWER: r2: the engine answered, the client heard no final answer\n"
        if status
        else "conforms\n"
    )
