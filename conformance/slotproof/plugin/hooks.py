"""The pytest plugin, loaded by every pytest run in an environment with slotproof.

Until an engine is named, the plugin imports only pytest. It never affects items of other suites.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

SUITE = "slotproof"
HERE = Path(__file__).resolve().parent
MODULE = HERE / "test_conformance.py"
ENGINE = pytest.StashKey[Any]()
"""Engine under test in this process."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of `slotproof run`, with the prefix `--slotproof-`."""
    group = parser.getgroup("slotproof", "conformance of an LLM engine's session slots")

    def add(name: str, metavar: str, help: str, **more: Any) -> None:
        group.addoption(f"--slotproof-{name}", metavar=metavar, help=help, **more)

    add(
        "engine",
        "ENGINE",
        help="build to test, with "
        f"--pyargs {SUITE}: reference, sglang@PYTHON, module:factory or cmd:PROGRAM ARGS",
    )
    configs = "configuration by name, repeatable (default: all without server options)"
    add("config", "NAME", configs, action="append")
    add("examples", "N", "total examples of all items (default: 1400)", type=int, default=1400)
    items = "maximum number of items per configuration, each with at least 10 examples"
    add("parts", "N", f"{items} (default: 5)", type=int, default=5)
    add("seed", "N", "the same seed gives the same run (default: 0)", type=int, default=0)
    add("profile", "NAME", "override the profile that the engine reports")
    passed = "ignore violations of this clause, repeatable"
    add("ignore", "CLAUSE", passed, action="append", default=[])
    add("baseline", "FILE", "fail only on findings that are not in this baseline", type=Path)
    add("step-timeout", "S", "seconds per iteration (default: 10)", type=float, default=10.0)
    folder = "folder for counterexamples (default: slotproof-traces)"
    add("out", "FOLDER", folder, type=Path, default=Path("slotproof-traces"))
    words = "fail if a transition offered by the engine was never reached"
    group.addoption("--slotproof-strict", action="store_true", help=words)


def pytest_configure(config: pytest.Config) -> None:
    """Report wrong usage in one line, before collection."""
    named = config.getoption("--slotproof-engine") is not None
    asked = asked_for(config)
    given = any(f"{arg}".startswith("--slotproof-") for arg in config.invocation_params.args)
    main_process = not hasattr(config, "workerinput")
    if asked and not named:
        from slotproof.environments.families import FIRST

        raise pytest.UsageError(
            f"{SUITE} needs an engine: --slotproof-engine=reference, {FIRST.name}, "
            "module:factory or “cmd:PROGRAM ARGS”"
        )
    if given and not asked and main_process:
        raise pytest.UsageError(
            f"--slotproof-… options run nothing without the suite: add --pyargs {SUITE}"
        )
    if named:
        from slotproof.plugin.part import parts
        from slotproof.plugin.summary import Summary

        parts(config)
        config.pluginmanager.register(Summary(config), "slotproof-summary")
    if asked and main_process and not (config.option.collectonly or config.option.help):
        engine = _started(config)
        if config.getoption("dist", "no") != "no":  # each worker of pytest-xdist starts an engine
            engine.close()


def _started(config: pytest.Config) -> Any:
    """Start the engine of this process, once. Raises :class:`pytest.UsageError` with one line."""
    from slotproof.engines.base import EngineUnusable
    from slotproof.engines.registry import EngineSpec
    from slotproof.support.terminal import plain

    if ENGINE not in config.stash:
        option = config.getoption
        spec = EngineSpec.parse(option("--slotproof-engine"), option("--slotproof-step-timeout"))
        try:
            config.stash[ENGINE] = spec.open()
        except EngineUnusable as problem:
            raise pytest.UsageError(plain(str(problem))) from None
        config.add_cleanup(config.stash[ENGINE].close)
    return config.stash[ENGINE]


def asked_for(config: pytest.Config) -> bool:
    """Return True if the command line names this suite by its package."""
    suite = {SUITE, f"{SUITE}.plugin", f"{SUITE}.plugin.test_conformance"}
    return bool(config.getoption("pyargs") and {arg.split("::")[0] for arg in config.args} & suite)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore the suite until an engine is named. With an engine, ignore all other package files."""
    path = collection_path.resolve()
    if config.getoption("--slotproof-engine") is None:
        return path == MODULE or None
    others = HERE.parent in path.parents and path not in (HERE, MODULE)
    return (asked_for(config) and others) or None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Create one pytest item per part of each configuration."""
    if "slotproof_part" in metafunc.fixturenames:
        from slotproof.plugin.part import parts

        metafunc.parametrize("slotproof_part", parts(metafunc.config), ids=str)


@pytest.fixture(scope="session")
def slotproof_findings(pytestconfig: pytest.Config) -> Any:
    """Return the findings of the build. The engine starts once for all items of this process."""
    from slotproof.plugin.part import findings

    try:
        engine = _started(pytestconfig)
    except pytest.UsageError as problem:
        pytest.fail(f"slotproof: {problem}", pytrace=False)
    return findings(pytestconfig, engine)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Attach an item's results to its report, also from a worker of pytest-xdist."""
    outcome = yield
    seen = getattr(item, "slotproof_seen", None)
    report = outcome.get_result()
    if seen is not None and report.when == "call":
        report.slotproof_seen = seen
