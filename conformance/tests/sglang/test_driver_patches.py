"""Patches on real builds: every patch that fits a release repairs the violation of its trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from slotproof_driver.patches import Source, names

from slotproof.engines.base import Engine, EngineUnusable
from slotproof.engines.registry import EngineSpec
from slotproof.environments.families import FAMILIES
from slotproof.lockstep.referee import play
from slotproof.reports.trace import Trace, load_trace

pytestmark = pytest.mark.sglang

FINDINGS = Path(__file__).parents[3] / "docs" / "findings"
FOLDER = FAMILIES["sglang"].driver.with_name("patches")
NOT_FOR = {
    "0.5.18": {"preemptor-without-row", "refused-turn-preempted", "swa-locked-full"},
    "0.5.23": {
        "empty-first-turn",
        "parked-not-counted",
        "preempted-lost",
        "queued-abort",
        "swa-chunked-prompt",
        "swa-deferred-free",
        "swa-locked-full",
    },
}
"""Patches of bugs absent from a release."""
_FIRST = {"branch-of-aborted", "empty-first-turn", "replace-all-crash", "retracted-abort-waits"}
OLDER = {
    "0.5.10.post1": {"branch-of-aborted", "swa-locked-full"},
    "0.5.12": {*_FIRST, "stub-clears-inflight", "swa-locked-full"},
    "0.5.13": {
        *_FIRST,
        "stub-clears-inflight",
        "one-token-history",
        "queued-abort",
        "refused-token",
        "swa-locked-full",
    },
    "0.5.15": {
        *_FIRST,
        "stub-clears-inflight",
        "one-token-history",
        "page-16-waits",
        "queued-abort",
        "refused-token",
    },
}
"""Patches for older releases. In 0.5.12 and 0.5.15, for one, a slot has no `kv`."""
NOT_SHOWN = {("0.5.10.post1", "swa-locked-full")}
"""The engine's own check raises in the third step of the trace."""
NOT_PATCHED = {
    "sglang-0.5.23-waits-rows",
    "sglang-0.5.23-waits-swa",
    "sglang-0.5.23-waits-behind-rows",
    "sglang-0.5.23-waits-behind-swa",
    "sglang-0.5.23-swa-budget-waits",
    "sglang-0.5.23-swa-budget-page-16",
    "sglang-0.5.23-swa-budget-refused",
    "sglang-0.5.23-swa-budget-turn",
    "sglang-0.5.23-own-row-waits",
    "sglang-0.5.23-never-admitted",
    "sglang-0.5.23-never-admitted-turn",
    "sglang-0.5.23-swa-branch-uncached",
    "sglang-0.5.23-abort-waits",
    "sglang-0.5.18-aborted-for-others",
    "sglang-0.5.23-aborted-for-others",
}
"""Findings without a patch, according to their pages."""
TRACES = [
    (release, path)
    for release in NOT_FOR
    for folder in (FINDINGS, FINDINGS / "gate")
    for path in sorted(folder.glob(f"sglang-{release}-*.itf.json"))
    if path.name.removesuffix(".itf.json") not in NOT_PATCHED
]


@pytest.fixture(scope="module")
def patched() -> Iterator[Callable[..., Engine]]:
    """Return a release with all patches that fit, or with the given patches."""
    engines: dict[tuple[str, ...], Engine] = {}

    def once(release: str, patches: tuple[str, ...] = ("all",)) -> Engine:
        if (release, *patches) not in engines:
            spec = EngineSpec(f"sglang=={release}", step_timeout=30, patches=patches)
            engines[release, *patches] = spec.open()
        return engines[release, *patches]

    yield once
    for engine in engines.values():
        engine.close()


@pytest.mark.parametrize(
    ("release", "path"), TRACES, ids=lambda part: part.stem if isinstance(part, Path) else part
)
def test_the_trace_of_a_finding_is_clean_with_the_patches(
    release: str, path: Path, patched: Callable[[str], Engine]
) -> None:
    trace = load_trace(path)
    log = play(patched(release), trace.setup, trace.commands, trace.passes).log
    assert [str(violation) for violation in log[-1].violations] == []
    assert len(log) == len(trace.commands)


def clauses(engine: Engine, trace: Trace) -> set[str]:
    log = play(engine, trace.setup, trace.commands, trace.passes).log
    return {violation.clause for violation in log[-1].violations}


@pytest.mark.parametrize("release", [*OLDER, *NOT_FOR])
def test_a_patch_that_fits_repairs_what_its_trace_shows(
    release: str, patched: Callable[..., Engine], python_of: Callable[[str], Path]
) -> None:
    """`retract-finishes` was once applied to a slot without `kv`, and every turn crashed."""
    wanted = OLDER.get(release) or set(names(FOLDER)) - NOT_FOR[release]
    (root,) = python_of(release).parents[1].glob("lib/python3*/site-packages")
    assert {name for name in names(FOLDER) if Source(root).patch(FOLDER, name) is None} == wanted
    assert set(patched(release).capabilities.patches) == wanted
    for name in sorted(wanted):
        paths = [*FINDINGS.glob(f"sglang-*-{name}.itf.json")]
        traces = map(load_trace, [*paths, *FINDINGS.glob(f"gate/sglang-*-{name}-plain.itf.json")])
        shown = [
            trace
            for trace in traces
            if {violation.clause for violation in trace.violations}
            & clauses(patched(release, trace.patches), trace)
        ]
        assert bool(shown) != ((release, name) in NOT_SHOWN), f"{name}: which trace shows the bug?"
        assert [(name, *clauses(patched(release), trace)) for trace in shown] == [(name,)] * len(
            shown
        )


def test_a_patch_of_another_release_is_one_line() -> None:
    spec = EngineSpec("sglang==0.5.23", patches=("queued-abort",))
    with pytest.raises(EngineUnusable, match=r"'queued-abort' does not fit this build: [^\n]+$"):
        spec.open()
