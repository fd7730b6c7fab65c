"""Patches on real builds: with them a finding's trace is clean. That it violates without them is
tested in `test_builds.py` and `test_gate.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slotproof.drivers.sglang.slotproof_sglang.mends import Source, names
from slotproof.engines.base import Engine, EngineUnusable
from slotproof.engines.registry import EngineSpec
from slotproof.lockstep.referee import play
from slotproof.reports.trace import load_trace

pytestmark = pytest.mark.sglang

FINDINGS = Path(__file__).parents[3] / "docs" / "findings"
NOT_FOR = {
    "0.5.18": set[str](),
    "0.5.23": {
        "empty-first-turn",
        "parked-not-counted",
        "preempted-lost",
        "queued-abort",
        "swa-chunked-prompt",
        "swa-deferred-free",
    },
}
"""Patches of bugs that a release does not have."""
NOT_MENDED = {
    "sglang-0.5.23-waits-rows",
    "sglang-0.5.23-waits-swa",
    "sglang-0.5.23-own-row-waits",
    "sglang-0.5.23-abort-waits",
    "sglang-0.5.18-aborted-for-others",
    "sglang-0.5.23-aborted-for-others",
}
"""Findings whose pages say that there is no patch."""
TRACES = [
    (release, path)
    for release in NOT_FOR
    for folder in (FINDINGS, FINDINGS / "gate")
    for path in sorted(folder.glob(f"sglang-{release}-*.itf.json"))
    if path.name.removesuffix(".itf.json") not in NOT_MENDED
]


@pytest.fixture(scope="module")
def mended() -> Iterator[Callable[[str], Engine]]:
    """Return a release with all patches that fit."""
    engines: dict[str, Engine] = {}

    def once(release: str) -> Engine:
        if release not in engines:
            spec = EngineSpec(f"sglang=={release}", step_timeout=30, mends=("all",))
            engines[release] = spec.open()
        return engines[release]

    yield once
    for engine in engines.values():
        engine.close()


@pytest.mark.parametrize(
    ("release", "path"), TRACES, ids=lambda part: part.stem if isinstance(part, Path) else part
)
def test_the_trace_of_a_finding_is_clean_with_the_mends(
    release: str, path: Path, mended: Callable[[str], Engine]
) -> None:
    trace = load_trace(path)
    log = play(mended(release), trace.setup, trace.commands, trace.passes).log
    assert [str(each) for each in log[-1].violations] == []
    assert len(log) == len(trace.commands)


@pytest.mark.parametrize("release", NOT_FOR)
def test_each_mend_fits_alone_and_beside_the_others(
    release: str, mended: Callable[[str], Engine], python_of: Callable[[str], Path]
) -> None:
    wanted = set(names()) - NOT_FOR[release]
    assert set(mended(release).capabilities.mends) == wanted
    (root,) = python_of(release).parents[1].glob("lib/python3*/site-packages")
    assert {name for name in names() if Source(root).mend(name) is None} == wanted


def test_a_mend_of_another_release_is_one_line() -> None:
    spec = EngineSpec("sglang==0.5.23", mends=("queued-abort",))
    with pytest.raises(EngineUnusable, match=r"'queued-abort' does not fit this build: [^\n]+$"):
        spec.open()
