"""Stand-ins for packages imported by an engine but never used in a run on a CPU."""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types

NAMES = (
    "torchvision",
    "sgl_kernel",
    "tvm_ffi",
    "sentencepiece",
    "loguru",
    "gguf",
    "triton",
    "compressed_tensors",
    "uvicorn",
    "xgrammar",
    "openai",
    "partial_json_parser",
    "IPython",
    "pybase64",
    "prometheus_client",
    "torchao",
    "torch_memory_saver",
    "flashinfer",
    "vllm",
)


class _Meta(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __getitem__(cls, item):
        return cls

    def __or__(cls, other):
        return cls

    __ror__ = __or__

    def __iter__(cls):
        return iter(())


class Anything(metaclass=_Meta):
    """Object with every attribute, also callable, subscriptable and usable as a decorator."""

    def __init__(self, *args, **kwargs):
        pass

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__()

    def __call__(self, *args, **kwargs):
        plain = len(args) == 1 and not kwargs
        return args[0] if plain and isinstance(args[0], types.FunctionType | type) else self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "get_current_target":  # the answer would be mistaken for a device
            raise RuntimeError("no GPU driver")
        return self

    def __getitem__(self, item):
        return self

    def __or__(self, other):
        return self

    __ror__ = __or__

    def __iter__(self):
        return iter(())

    def __bool__(self):
        return False

    def __int__(self):
        return 0

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        return None

    def __mro_entries__(self, bases):
        return (Anything,)

    @classmethod
    def __get_pydantic_core_schema__(cls, source, handler):
        return {"type": "any"}


class _Module(types.ModuleType):
    __version__ = "9.9.9"
    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = _Meta(name, (Anything,), {}) if name[:1].isupper() else Anything()
        setattr(self, name, value)
        return value

    def __call__(self, *args, **kwargs):
        return Anything()(*args, **kwargs)

    def __mro_entries__(self, bases):
        return (Anything,)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names):
        self.names = names

    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] in self.names:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec):
        return _Module(spec.name)

    def exec_module(self, module):
        pass


def install(names=NAMES):
    """Answer imports of absent packages."""
    absent = {name for name in names if importlib.util.find_spec(name) is None}
    sys.meta_path.insert(0, _Finder(absent))
