"""Patches on real builds: every patch that fits a release repairs the violation of its trace, and
no other patch does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

import pytest
from slotproof_driver.patches import Source, names

from slotproof.engines.base import EngineUnusable
from slotproof.engines.registry import EngineSpec
from slotproof.lockstep.referee import play
from slotproof.reports.trace import load_trace
from tests.vllm.test_findings import DRIVER, LAST, TRACES, WITH, named, shows

pytestmark = pytest.mark.vllm

FOLDER = DRIVER / "patches"
NOT_PATCHED = {"paused-session-pins", "resumed-in-flight", "session-outgrows-context"}
"""Findings without a patch, according to their pages."""
BUILDS = ("0.15.0", "0.25.0", "0.30.0", "0.32.0", "0.33.0")
"""The last release of every layout with a diff in some patch, and the oldest and newest release."""
MORE = ("0.17.0", "0.20.0", "0.22.0", "0.28.0", "0.31.0")
OPTION = {named(path): option for option, path in WITH}
"""Driver option of the finding's trace, by finding."""


def fit(build: str) -> set[str]:
    """Return the names of the patches whose bugs the release has."""
    return {name for name in LAST if name in names(FOLDER) and shows(name, build)}


def found(spec: EngineSpec, paths: Iterable[Path]) -> dict[str, set[str]]:
    """Return the clauses violated at the end of each trace, by file name."""
    with closing(spec.open()) as engine:
        return {
            path.name: {
                violation.clause
                for violation in play(engine, it.setup, it.commands).log[-1].violations
            }
            for path in paths
            for it in [load_trace(path)]
        }


def test_every_finding_has_a_patch_or_a_page_that_says_why_not() -> None:
    pages = {name.removesuffix("-outgrows") for name in LAST}
    assert pages == {*names(FOLDER), *NOT_PATCHED}


@pytest.mark.parametrize("build", [*BUILDS, *MORE])
def test_a_patch_fits_the_releases_that_have_its_bug(
    build: str, python_of: Callable[[str], Path]
) -> None:
    (root,) = python_of(build).parents[1].glob("lib/python3*/site-packages")
    every = Source(root)
    assert {name for name in names(FOLDER) if every.patch(FOLDER, name) is None} == fit(build)
    assert {name for name in names(FOLDER) if Source(root).patch(FOLDER, name) is None} == fit(
        build
    )
    for path, text in every.changed.items():
        compile(text, path, "exec")


@pytest.mark.parametrize("build", BUILDS)
def test_the_traces_of_findings_are_clean_with_the_patches(
    build: str, python_of: Callable[[str], Path]
) -> None:
    """Except a trace whose bug has no patch."""
    spec = EngineSpec("vllm", python_of(build), step_timeout=60, patches=("all",))
    unpatched = [path.name for path in TRACES if named(path) == "resumed-in-flight"]
    violated = [name for name, clauses in found(spec, TRACES).items() if clauses]
    assert violated == (unpatched if shows("resumed-in-flight", build) else [])


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("patch", names(FOLDER))
def test_the_trace_of_a_finding_shows_it_with_all_patches_but_its_own(
    patch: str, build: str, python_of: Callable[[str], Path]
) -> None:
    if patch not in fit(build):
        pytest.skip(f"{build} does not have this bug")
    python, option = python_of(build), OPTION.get(patch)
    paths = [path for path in [*TRACES, *(it for _, it in WITH)] if named(path).startswith(patch)]
    others = tuple(sorted(fit(build) - {patch}))

    def spec(patches: tuple[str, ...]) -> EngineSpec:
        if option is None:
            return EngineSpec("vllm", python, step_timeout=60, patches=patches)
        words = " ".join(f"--patch {name}" for name in patches)
        return EngineSpec(f"cmd:{python} {DRIVER} --{option} {words}", step_timeout=60)

    shown = found(spec(others), paths)
    assert all(
        {violation.clause for violation in load_trace(path).violations} & shown[path.name]
        for path in paths
    )
    if option is not None:
        assert found(spec((*others, patch)), paths) == {path.name: set() for path in paths}


def test_a_patch_that_does_not_fit_is_one_line(python_of: Callable[[str], Path]) -> None:
    spec = EngineSpec("vllm", python_of("0.33.0"), patches=("first-max-tokens",))
    with pytest.raises(
        EngineUnusable, match=r"'first-max-tokens' does not fit this build: [^\n]+$"
    ):
        spec.open()
