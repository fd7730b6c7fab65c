"""The small examples in docstrings run."""

import doctest
import importlib
import pkgutil

import pytest

import slotproof.conformance
import slotproof.impl
import slotproof.model

MODULES = [
    info.name
    for package in (slotproof.model, slotproof.impl, slotproof.conformance)
    for info in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    if not any(part in info.name for part in (".tests", ".drivers", ".triton_"))
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples() -> None:
    attempted = sum(doctest.testmod(importlib.import_module(name)).attempted for name in MODULES)
    assert attempted > 15
