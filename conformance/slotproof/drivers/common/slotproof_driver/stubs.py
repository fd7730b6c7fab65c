"""Stubs of packages that an engine imports but that a CPU run never uses.

Engines import GPU kernels, tokenizers and grammar libraries at module level. Their schedulers work
without these packages. For an import of a missing package, a finder on ``sys.meta_path`` returns a
module that has every attribute. An installed package is never replaced.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

#: A look-up of this attribute must fail, or the caller treats the stub as the name of a GPU.
NO_DRIVER = "get_current_target"


class _StubMeta(type):
    """Metaclass of stub classes. A stub *class* accepts every attribute, subscript and operator."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return _Stub(f"{cls.__name__}.{name}")

    def __getitem__(cls, item: object) -> Any:
        return cls

    def __or__(cls, other: object) -> Any:
        return cls

    def __ror__(cls, other: object) -> Any:
        return cls

    def __iter__(cls) -> Iterator[Any]:
        return iter(())


class _Stub(metaclass=_StubMeta):
    """Stub object: callable, subscriptable (``kernel[grid](…)``), usable as a decorator."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._name = args[0] if args and isinstance(args[0], str) else "stub"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        # This supports ``class Typed(StubTypedDict, total=False)`` and similar classes.
        super().__init_subclass__()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # A bare decorator gets the function and must return it. A decorator factory gets other
        # arguments, and returns a stub that then decorates.
        if len(args) == 1 and not kwargs and isinstance(args[0], types.FunctionType | type):
            return args[0]
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        if name == NO_DRIVER:
            raise RuntimeError(f"{self._name}: no GPU driver")
        return _Stub(f"{self._name}.{name}")

    def __getitem__(self, item: object) -> Any:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __bool__(self) -> bool:
        return False

    def __int__(self) -> int:
        return 0

    def __or__(self, other: object) -> Any:
        return self

    def __ror__(self, other: object) -> Any:
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (_Stub,)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return {"type": "any"}


class _StubModule(types.ModuleType):
    """Module that has every attribute. A capitalised attribute is a class, any other a stub."""

    __version__ = "9.9.9"
    __path__: list[str] = []  # noqa: RUF012  # what the import system expects

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        value: Any
        if name[:1].isupper():
            value = _StubMeta(name, (_Stub,), {"__module__": self.__name__})
        else:
            value = _Stub(f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _Stub(self.__name__)(*args, **kwargs)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (_Stub,)


class _StubFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finder and loader for stubbed packages and their submodules."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = frozenset(names)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] not in self.names:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _StubModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        return None


def prepare(names: Sequence[str]) -> None:
    """Import torch with one thread, then stub each package in ``names`` that is not installed.

    Torch comes first: it looks for Triton at import and would mistake a stub for Triton.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(1)
    triton_probe = importlib.import_module("torch.utils._triton")
    triton_probe.has_triton_package()
    triton_probe.has_triton()
    importlib.import_module("torch._inductor.runtime.triton_compat")
    absent = [name for name in names if importlib.util.find_spec(name) is None]
    sys.meta_path.insert(0, _StubFinder(absent))
