"""The pytest plugin. Every pytest run of an environment with slotproof loads this module.

So it imports nothing but pytest until an engine is named, and then does something only for
the items of this suite.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from slotproof.plugin.part import Part

SUITE = "slotproof"
HERE = Path(__file__).resolve().parent
MODULE = HERE / "test_conformance.py"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of `slotproof run`, with a prefix."""
    group = parser.getgroup("slotproof", "conformance of an LLM engine's session slots")

    def add(name: str, metavar: str, help: str, **more: Any) -> None:
        group.addoption(f"--slotproof-{name}", metavar=metavar, help=help, **more)

    add(
        "engine",
        "ENGINE",
        help="reference, sglang@PYTHON, module:factory or cmd:PROGRAM ARGS; runs the suite with "
        f"--pyargs {SUITE}",
    )
    add(
        "config", "NAME", "a configuration by name; may be repeated (default: all)", action="append"
    )
    add("examples", "N", "command sequences in all (default: 1400)", type=int, default=1400)
    items = (
        "items per configuration at most, for xdist; an item has 10 examples or more (default: 5)"
    )
    add("parts", "N", items, type=int, default=5)
    add("seed", "N", "the same seed gives the same run (default: 0)", type=int, default=0)
    add("profile", "NAME", "the choices the engine made, if not its own")
    known = "a clause whose violations are known; may be repeated"
    add("ignore", "CLAUSE", known, action="append", default=[])
    add("baseline", "FILE", "a baseline of `slotproof gate`: only what is new fails", type=Path)
    add("step-timeout", "S", "seconds for one iteration (default: 10)", type=float, default=10.0)
    folder = "where counterexamples are written (default: slotproof-traces)"
    add("out", "FOLDER", folder, type=Path, default=Path("slotproof-traces"))
    words = "fail if a transition that the engine offers was never reached"
    group.addoption("--slotproof-strict", action="store_true", help=words)


def pytest_configure(config: pytest.Config) -> None:
    """Wrong usage is told before anything is collected, in one line."""
    named = config.getoption("--slotproof-engine") is not None
    if asked_for(config) and not named:
        from slotproof.environments.families import FIRST

        raise pytest.UsageError(
            f"{SUITE} needs an engine: --slotproof-engine=reference, {FIRST.name}, "
            "module:factory or “cmd:PROGRAM ARGS”"
        )
    if named:
        from slotproof.plugin.part import parts
        from slotproof.plugin.summary import Summary

        parts(config)
        config.pluginmanager.register(Summary(config), "slotproof-summary")


def asked_for(config: pytest.Config) -> bool:
    """Whether the command line names this suite by its package."""
    names = (arg.split("::")[0] for arg in config.args)
    wanted = (SUITE, f"{SUITE}.plugin", f"{SUITE}.plugin.test_conformance")
    return bool(config.getoption("pyargs")) and any(name in wanted for name in names)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The suite is there for those who name an engine; then nothing else of the package is."""
    path = collection_path.resolve()
    if config.getoption("--slotproof-engine") is None:
        return True if path == MODULE else None
    if asked_for(config) and HERE.parent in path.parents and path not in (HERE, MODULE):
        return True
    return None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One item per configuration and part."""
    if "slotproof_part" in metafunc.fixturenames:
        from slotproof.plugin.part import parts

        metafunc.parametrize("slotproof_part", parts(metafunc.config), ids=str, indirect=True)


@pytest.fixture(scope="session")
def slotproof_engine(pytestconfig: pytest.Config) -> Generator[Any, None, None]:
    """The engine under test, started once for all items of this process."""
    from slotproof.engines.base import EngineUnusable
    from slotproof.engines.registry import EngineSpec
    from slotproof.support.terminal import plain

    option = pytestconfig.getoption
    spec = EngineSpec.parse(option("--slotproof-engine"), option("--slotproof-step-timeout"))
    try:
        engine = spec.open()
    except EngineUnusable as problem:
        pytest.fail(plain(f"slotproof: {problem}"), pytrace=False)
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def slotproof_findings(pytestconfig: pytest.Config, slotproof_engine: Any) -> Any:
    """What is known of the build, and what the items of this session have told."""
    from slotproof.plugin.part import findings

    return findings(pytestconfig, slotproof_engine)


@pytest.fixture
def slotproof_part(
    request: pytest.FixtureRequest, slotproof_engine: Any, slotproof_findings: Any
) -> Part:
    """A configuration with its share of the examples, ready to be run."""
    part: Part = request.param
    return replace(part, engine=slotproof_engine, item=request.node, findings=slotproof_findings)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """What an item has seen travels with its report, from an xdist worker too."""
    outcome = yield
    seen = getattr(item, "slotproof_seen", None)
    report = outcome.get_result()
    if seen is not None and report.when == "call":
        report.slotproof_seen = seen
