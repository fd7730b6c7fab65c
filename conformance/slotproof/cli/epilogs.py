"""Examples to copy, and what the exit status says: the end of a command's ``--help``."""

from __future__ import annotations

from slotproof.support.statuses import CONFORMS, FOUND, INCONCLUSIVE, USAGE

_WRONG = {USAGE: "wrong usage, or an engine or a file that can't be used"}
_SEARCHED = {
    CONFORMS: "conforms: nothing was found",
    FOUND: "a counterexample",
    **_WRONG,
    INCONCLUSIVE: "inconclusive: something was not reached, not judged, or interrupted",
}
_DONE = {CONFORMS: "done", **_WRONG}

HELP: dict[str, tuple[tuple[str, ...], dict[int, str]]] = {
    "": (
        ("slotproof run --engine reference", "slotproof run --engine sglang==0.5.23 --seconds 60"),
        {
            CONFORMS: "conforms, or proved",
            FOUND: "a counterexample",
            **_WRONG,
            INCONCLUSIVE: "inconclusive",
            70: "a bug of slotproof",
        },
    ),
    "run": (
        (
            "slotproof run --engine reference:22213-double-count",
            "slotproof run --engine sglang==0.5.23 --all --seconds 28800 --out night",
            "slotproof run --engine 'cmd:python toy.py' --config p1",
        ),
        _SEARCHED,
    ),
    "gate": (
        (
            "slotproof gate baseline.json --engine sglang==0.5.23 --junit results.xml",
            "slotproof gate baseline.json --engine sglang==0.5.23 --update",
            "slotproof gate --base sglang==0.5.18 --engine sglang@/envs/mine/bin/python",
        ),
        {
            CONFORMS: "green: nothing new",
            FOUND: "something new: with --base, what it does alone; with --mended-fails, something "
            "mended",
            **_WRONG,
            INCONCLUSIVE: "inconclusive: something could not be judged, or nothing was searched",
        },
    ),
    "report": (
        ("slotproof report night-1 night-2", "slotproof report night --baseline baseline.json"),
        _SEARCHED,
    ),
    "matrix": (
        (
            "slotproof matrix sglang==0.5.18 sglang==0.5.23 --seconds 60",
            "slotproof matrix old=sglang@/envs/old/bin/python reference",
        ),
        _SEARCHED,
    ),
    "replay": (
        (
            "slotproof replay found.itf.json",
            "slotproof replay found.itf.json --engine sglang==0.5.23 --out now.itf.json",
            "slotproof replay found.itf.json --against sglang==0.5.23",
        ),
        {
            CONFORMS: "no clause is violated, or both builds do the same",
            FOUND: "a clause is violated, or the builds differ",
            **_WRONG,
        },
    ),
    "show": (
        (
            "slotproof show found.itf.json",
            "slotproof show found.itf.json --out found.html",
            "slotproof show found.itf.json --open",
            "slotproof show found.itf.json --format issue --releases",
            "slotproof show --all --out pages one.itf.json two.itf.json",
        ),
        {CONFORMS: "shown", **_WRONG},
    ),
    "validate": (
        ("slotproof validate log.jsonl --out x.itf.json", "slotproof validate -"),
        _SEARCHED,
    ),
    "prove": (
        (
            "slotproof prove",
            "slotproof prove --transition T-RESTORE --page-size 4",
            "slotproof prove --progress --page-size 4 --without T-DISCARD",
            "slotproof prove --mutant 22862-no-free-tail",
        ),
        {
            CONFORMS: "proved; with --mutant, no counterexample",
            FOUND: "not proved; with --mutant, a counterexample",
            **_WRONG,
        },
    ),
    "docs": (
        ("slotproof docs", "slotproof docs --check"),
        {CONFORMS: "written, or as the spec says", FOUND: "stale", **_WRONG},
    ),
    "list": (("slotproof list engines", "slotproof list invariants --json"), _DONE),
    "check-driver": (
        ("slotproof check-driver 'python toy.py'", "slotproof check-driver sglang==0.5.23"),
        {CONFORMS: "all ok", FOUND: "a broken rule", USAGE: "it does not start"},
    ),
    "env create": (("slotproof env create sglang==0.5.23",), _DONE),
    "env list": (("slotproof env list",), _DONE),
    "env remove": (("slotproof env remove sglang==0.5.18", "slotproof env remove --all"), _DONE),
}
"""By command: examples, and what each status says of it."""


def epilog(command: str) -> str:
    """Return the end of a command's help; no bracket, which would be a mark-up.

    >>> print(epilog("docs").partition("Exit")[0].strip())
    Examples:
      slotproof docs
      slotproof docs --check
    """
    examples, statuses = HELP[command]
    lines = [
        "Examples:",
        *(f"  {each}" for each in examples),
        "",
        "Exit status:",
        *(f"  {status:>2}  {says}" for status, says in statuses.items()),
    ]
    return "\n".join(lines)
