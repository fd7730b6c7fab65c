"""Permissive stand-ins for packages that an engine imports but a CPU run never uses.

Engines import GPU kernels, tokenizers and grammar libraries at module level. Their schedulers
need none of them, so a finder on ``sys.meta_path`` answers those imports with modules whose
every attribute exists. A stub is used only where the real package is absent: an environment
that has one keeps it.
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

#: Asking a GPU driver what it is must fail, or the caller takes the answer for a device name.
NO_DRIVER = "get_current_target"


class _StubMeta(type):
    """Lets a stub *class* answer any attribute, subscript or operator, as an instance does."""

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
    """Anything: callable, subscriptable (``kernel[grid](…)``), usable as a decorator."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._name = args[0] if args and isinstance(args[0], str) else "stub"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        # ``class Typed(StubTypedDict, total=False)`` and the like.
        super().__init_subclass__()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # A bare decorator must return the function; a decorator factory gets here
        # with other arguments and answers with another stub, which then decorates.
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
    """A module that has every attribute. Capitalised names are classes, others instances."""

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
    """Answers imports of the stubbed packages and of anything below them."""

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
    """Import torch, for one thread, and stub those of ``names`` that this environment lacks.

    Torch is asked about Triton first: it would take a stub for the real thing.
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
