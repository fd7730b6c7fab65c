"""The small examples in docstrings run."""

import doctest
import importlib
import pkgutil

import pytest

import slotproof
import slotproof_engine
import slotproof_model
import tests.checks

MODULES = ["slotproof"] + [
    info.name
    for package in (slotproof_model, slotproof_engine, slotproof, tests.checks)
    for info in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    if not any(part in info.name for part in (".drivers", ".triton_"))
]


EXAMPLES = [
    test
    for name in MODULES
    for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name))
    if test.examples
]
"""Examples of all modules. pytest's --doctest-modules would load a second copy of each file, as
`model.expr` beside `slotproof_model.spec.expr`, and run the copy."""


@pytest.mark.parametrize("test", EXAMPLES, ids=lambda test: test.name.removeprefix("slotproof."))
def test_examples_run(test: doctest.DocTest) -> None:
    assert doctest.DocTestRunner().run(test).failed == 0


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 100
