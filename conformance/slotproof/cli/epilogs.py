"""Examples and exit statuses at the end of a command's ``--help``."""

from __future__ import annotations

from slotproof.support.statuses import CONFORMS, FOUND, INCONCLUSIVE, INTERNAL, USAGE

EXAMPLES = """\
slotproof run --engine reference:22213-double-count
slotproof run --engine sglang==0.5.23 --all --seconds 28800 --out night
slotproof run --engine 'cmd:python toy.py' --config p1
slotproof gate baseline.json --engine sglang==0.5.23 --junit results.xml
slotproof gate baseline.json --engine sglang==0.5.23 --update
slotproof gate --base sglang==0.5.18 --engine sglang@/envs/mine/bin/python
slotproof report night-1 night-2
slotproof report night --baseline baseline.json
slotproof matrix sglang==0.5.18 sglang==0.5.23 --seconds 60
slotproof matrix old=sglang@/envs/old/bin/python reference
slotproof replay found.itf.json
slotproof replay found.itf.json --engine sglang==0.5.23 --out now.itf.json
slotproof replay found.itf.json --against sglang==0.5.23
slotproof show found.itf.json
slotproof show found.itf.json --out found.html
slotproof show found.itf.json --open
slotproof show found.itf.json --format issue --releases
slotproof show --all --out pages one.itf.json two.itf.json
slotproof validate log.jsonl --out x.itf.json
slotproof validate -
slotproof prove
slotproof prove --transition T-RESTORE --page-size 4
slotproof prove --progress --page-size 4 --without T-DISCARD
slotproof prove --mutant 22862-no-free-tail
slotproof docs
slotproof docs --check
slotproof list engines
slotproof list invariants --json
slotproof check-driver 'python toy.py'
slotproof check-driver sglang==0.5.23
slotproof env create sglang==0.5.23
slotproof env list
slotproof env remove sglang==0.5.18
slotproof env remove --all
"""
FIRST = ["slotproof run --engine reference", "slotproof run --engine sglang==0.5.23 --seconds 60"]
"""Examples in the help of ``slotproof`` itself, without a command."""

_WRONG = "wrong usage, or an unusable engine or file"
_DONE = {CONFORMS: "done"}
_SEARCHED = {
    CONFORMS: "conforms: no counterexample",
    FOUND: "a counterexample",
    INCONCLUSIVE: "inconclusive: interrupted, or a part of the spec was not reached or not judged",
}
STATUSES: dict[str, dict[int, str]] = {
    "": {
        CONFORMS: "conforms, or proved",
        FOUND: "a counterexample",
        INCONCLUSIVE: "inconclusive",
        INTERNAL: "a bug of slotproof",
    },
    "run": _SEARCHED,
    "gate": {
        CONFORMS: "green: nothing new",
        FOUND: "a finding that is neither in the baseline nor in the --base build, or a fixed "
        "group with --fail-on-fixed",
        INCONCLUSIVE: "inconclusive: a finding could not be judged, or the search was too short",
    },
    "report": {
        CONFORMS: "conforms: the journals have no finding",
        FOUND: "a cause was found, in the baseline or not",
        INCONCLUSIVE: "inconclusive: examples or transitions are missing, or a run is unfinished",
    },
    "matrix": _SEARCHED,
    "replay": {
        CONFORMS: "no clause is violated, or both builds behave alike",
        FOUND: "a clause is violated, or the builds differ",
    },
    "show": {CONFORMS: "shown"},
    "validate": _SEARCHED,
    "prove": {
        CONFORMS: "proved, or no counterexample with --mutant",
        FOUND: "not proved, or a counterexample with --mutant",
    },
    "docs": {CONFORMS: "documents written, or up to date", FOUND: "a document is stale"},
    "list": _DONE,
    "check-driver": {CONFORMS: "all ok", FOUND: "a broken rule", USAGE: "the driver doesn't start"},
    "env create": _DONE,
    "env list": _DONE,
    "env remove": _DONE,
}
"""Meaning of each exit status, by command. Status 2 is listed only where its meaning is special."""


def examples(command: str) -> list[str]:
    """Return the examples of a command. The command ``""`` stands for the program itself."""
    if not command:
        return FIRST
    start = f"slotproof {command} "
    return [example for example in EXAMPLES.splitlines() if f"{example} ".startswith(start)]


def epilog(command: str) -> str:
    """Return the end of a command's help, without brackets, which Rich would read as markup.

    >>> print(epilog("docs").partition("Exit")[0].strip())
    Examples:
      slotproof docs
      slotproof docs --check
    """
    lines = ["Examples:", *(f"  {example}" for example in examples(command)), "", "Exit status:"]
    said = sorted({USAGE: _WRONG, **STATUSES[command]}.items())
    return "\n".join([*lines, *(f"  {status:>2}  {says}" for status, says in said)])
