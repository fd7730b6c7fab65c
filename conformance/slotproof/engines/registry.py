"""Registry that turns an ``--engine`` argument into an engine."""

from __future__ import annotations

import importlib
import shlex
import shutil
import subprocess
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Self

from slotproof.engines.base import Capabilities, Engine, EngineUnusable, in_one_line, named
from slotproof.engines.checked import CheckedEngine, TimedEngine
from slotproof.engines.identity import installed
from slotproof.engines.process import START_TIMEOUT, ProcessEngine
from slotproof.engines.releases import of_release
from slotproof.environments.families import FAMILIES, near
from slotproof.environments.uv import clean_environment
from slotproof.protocol.build import Build
from slotproof.support import children
from slotproof.support.files import slug

MODELS = {"reference": "stamps", "reference-transformer": "transformer"}
"""Model of each reference engine, by engine name. ``stamps`` computes each token from sums of KV
stamps. ``transformer`` runs a tiny transformer."""
STEM = 60
"""Maximum number of characters that an engine's name takes in a file name."""
FORMS = (
    *("reference", "reference:MUTANT", "reference@cuda"),
    *(f"{name}{release}" for name in FAMILIES for release in ("==RELEASE", "@PYTHON")),
    *("module:factory", "cmd:PROGRAM ARGS"),
)
"""Forms of the ``--engine`` argument."""


@dataclass(frozen=True)
class EngineSpec:
    """A chosen engine and its options. ``text``: the argument before ``@PYTHON`` or ``@DEVICE``."""

    text: str
    python: Path | None = None
    device: str = "cpu"
    step_timeout: float = 10.0
    start_timeout: float = START_TIMEOUT
    patches: tuple[str, ...] = ()
    """Names of the patches that the driver applies in its process. Each repairs a known bug."""
    label: str = ""
    """Name that the user gave the build."""

    @property
    def stem(self) -> str:
        """Beginning of the names of trace files, different for each command and environment.

        >>> EngineSpec("cmd:python toy.py --bug").stem
        'cmd-python-toy.py-bug'
        >>> EngineSpec("sglang", Path("/envs/old/bin/python")).stem
        'sglang-old-3d9a7d68'
        """
        name = slug(self.text)
        if self.python is None and not self.patches and len(name) <= STEM:
            return name
        home = self.python.absolute().parent.parent if self.python else Path()
        whole = f"{self.text} {self.python and self.python.absolute()}"
        number = zlib.crc32(" ".join((whole, *self.patches)).encode())
        patched = "patched" if self.patches else ""
        return f"{slug(f'{name[:STEM]} {home.name} {patched}')}-{number:08x}"

    @classmethod
    def parse(
        cls,
        argument: str,
        step_timeout: float = 10.0,
        patches: Sequence[str] | None = None,
        default_patches: Sequence[str] = (),
        label: str | None = None,
    ) -> Self:
        """Return the spec of an ``--engine`` argument, which may end in ``@PYTHON`` or ``@DEVICE``.

        >>> EngineSpec.parse("sglang@/env/bin/python").python
        PosixPath('/env/bin/python')
        >>> EngineSpec.parse("reference@cuda").device, EngineSpec.parse("cmd:a@b").text
        ('cuda', 'cmd:a@b')
        """
        text, at, where = argument.partition("@")
        is_build = text.partition("==")[0] in FAMILIES
        if not at or not (is_build or is_ours(text)):
            text, at = argument, ""
        if patches is None:
            patches = patches_for(text, default_patches)
        return cls(
            text=text,
            python=Path(where) if at and is_build else None,
            device=where if at and not is_build else "cpu",
            step_timeout=step_timeout,
            start_timeout=max(START_TIMEOUT, step_timeout),
            patches=tuple(patches),
            label=label or "",
        )

    @property
    def where(self) -> str:
        """End of the ``--engine`` argument: ``@PYTHON``, ``@DEVICE`` or nothing."""
        if self.python is not None:
            return f"@{self.python}"
        return f"@{self.device}" if self.device != "cpu" else ""

    @property
    def argument(self) -> str:
        """Complete ``--engine`` argument."""
        return f"{self.text}{self.where}"

    @property
    def options(self) -> str:
        """Options to give in addition to ``--engine``. Options at their defaults are left out.

        >>> EngineSpec("sglang", step_timeout=60, patches=("queued-abort",)).options
        '--step-timeout 60 --patch queued-abort'
        """
        given = [f"--step-timeout {self.step_timeout:g}"] if self.step_timeout != 10.0 else []
        return " ".join([*given, *(f"--patch {shlex.quote(patch)}" for patch in self.patches)])

    def open(self) -> Engine:
        """Start the engine. Raises :class:`EngineUnusable` with a message of one line.

        >>> EngineSpec("reference:22213-double-count").open().version
        '1 with 22213-double-count'
        """
        name, _, rest = self.text.partition(":")
        self._on_a_device(name)
        self._check_patches()
        engine: ProcessEngine | TimedEngine
        family = self._family()
        if family is None and (name == "cmd" or rest or name in MODELS):
            self._without_python()
        if family:
            engine = self._build(family)
        elif name in MODELS:
            engine = self._reference(rest or None, MODELS[name], with_mutant=":" in self.text)
        elif name == "cmd":
            engine = self._driven(self.driver())
        elif rest and all(part.isidentifier() for part in name.split(".")):
            engine = self._factory(name, rest)
        else:
            forms = near(self.text) or f"an engine is one of: {', '.join(FORMS)}"
            raise EngineUnusable(f"unknown engine {self.text!r}; {forms}")
        engine.identity = cache(partial(self.identity, engine.name, engine.version))
        return engine

    def open_afresh(self) -> Engine:
        """Start the engine in a fresh process.

        A fresh reference engine needs no process, because new objects hold its whole state. Raises
        :class:`EngineUnusable` with a message of one line.
        """
        if self._family() or self.text.startswith("cmd:") or is_ours(self.text):
            return self.open()
        return self._driven(self.driver())

    def identity(self, name: str, version: str) -> Build:
        """Return the identity of the build. Reads all files of the build's package."""
        build, family = named(self.argument, name, version, self.label), self._family()
        if family is None:
            return build
        python, package = self._place(family)
        build = installed(build, package)
        # A release's environment with changed files is no release: name the build by its Python.
        changed = self.text != family and not build.release
        return replace(build, argument=f"{family}@{python}") if changed else build

    def package(self) -> Path | None:
        """Return the folder of the build's package. None for an engine that has no builds."""
        family = self._family()
        return self._place(family)[1] if family else None

    def driver(self) -> list[str]:
        """Return the command that starts the driver, or a server for an engine without a driver.

        Raises :class:`EngineUnusable` with a message of one line.
        """
        name, _, rest = self.text.partition(":")
        if family := self._family():
            program = (self._place(family)[0], FAMILIES[family].driver)
            return [*map(str, program), *(f"--patch={patch}" for patch in self.patches)]
        self._without_python()
        if name != "cmd":
            return [sys.executable, "-m", "slotproof.engines.served", self.text]
        try:
            argv = shlex.split(rest)
        except ValueError as error:
            raise EngineUnusable(f"cmd:{rest}: {error}") from None
        if not argv:
            raise EngineUnusable("cmd: names no program")
        return argv

    def _family(self) -> str | None:
        """Return the engine family of the build, or None."""
        family = self.text.partition("==")[0]
        return family if family in FAMILIES else None

    def _check_patches(self) -> None:
        """Raise :class:`EngineUnusable` if a chosen patch does not exist for the engine."""
        if self.patches != patches_for(self.text, self.patches):
            able = " and ".join(name for name, family in FAMILIES.items() if family.patches)
            raise EngineUnusable(f"--patch is for {able}; there are no patches for {self.text}")
        for name in self.patches:
            if name != "all" and name not in FAMILIES[self._family() or ""].patches:
                text = f"there is no patch {name!r}; `slotproof list patches` shows them"
                raise EngineUnusable(text)

    def _without_python(self) -> None:
        if self.python is not None:
            raise EngineUnusable(
                f"@{self.python} is for {' and '.join(FAMILIES)}, whose builds have environments; "
                f"{self.text} has none"
            )

    def _driven(self, argv: list[str], env: dict[str, str] | None = None) -> ProcessEngine:
        return ProcessEngine(argv, self.step_timeout, env, self.start_timeout)

    def _build(self, family: str) -> ProcessEngine:
        """Start a build that is named by its release or by its Python."""
        argv, released = self.driver(), self.text != family
        try:
            return self._driven(argv, clean_environment() if released else None)
        except EngineUnusable as error:
            if not released or (self.patches and "does not fit" in str(error)):
                raise
            raise EngineUnusable(
                f"{error} (if the environment is damaged: slotproof env create --again {self.text})"
            ) from None

    def _on_a_device(self, name: str) -> None:
        """Check that the device exists. Only the reference engine takes a device."""
        if self.device == "cpu":
            return
        if name not in MODELS:
            raise EngineUnusable(
                f"@{self.device} is for the reference engine; {self.text} places its tensors itself"
            )
        try:
            import torch

            torch.zeros(1, device=self.device)
        except ModuleNotFoundError as error:
            raise torch_missing(error) from None
        except (RuntimeError, AssertionError) as error:
            reason = str(error).splitlines()[0]
            raise EngineUnusable(f"device {self.device!r} can't be used: {reason}") from None

    def _reference(self, mutant: str | None, model: str, with_mutant: bool) -> TimedEngine:
        if with_mutant and not mutant:
            raise EngineUnusable("reference: names no mutant; `slotproof list mutants` shows them")
        try:
            from slotproof.engines.reference import InProcessEngine
        except ModuleNotFoundError as error:
            raise torch_missing(error) from None
        engine = InProcessEngine(mutant, self.device, model)
        compiles = self.device != "cpu"  # On a GPU the first step compiles kernels.
        return TimedEngine(engine, self.start_timeout if compiles else self.step_timeout)

    def _place(self, family: str) -> tuple[Path, Path]:
        """Return the Python of a build and the folder of the engine's package."""
        if self.text != family:
            if self.python is not None:
                raise EngineUnusable(
                    f"{self.text} has its own environment; to test another one: "
                    f"--engine {family}@{self.python}"
                )
            entry = of_release(self.text)
            return entry.python, entry.site / family
        python = self.python or Path(sys.executable)
        if shutil.which(str(python)) is None:
            raise EngineUnusable(f"{family}@{python}: there is no such program")
        # A folder with the engine's name in the working directory is no build: it has no file.
        probe = (
            "import sys; sys.path = [p for p in sys.path if p]; import importlib.util as u; "
            f"s = u.find_spec('{family}'); print(); print(s.origin if s and s.origin else '')"
        )
        try:
            done = children.run([python, "-c", probe], timeout=self.start_timeout)
        except OSError as error:
            raise EngineUnusable(f"{family}@{python} can't be run: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise EngineUnusable(
                f"{family}@{python} does not report within {self.start_timeout:g} s whether it can "
                f"import {family}: is the program a Python?"
            ) from None
        origin = done.stdout.decode(errors="surrogateescape").rstrip("\n").rpartition("\n")[2]
        if done.returncode or not origin:
            raise EngineUnusable(
                f"{python} has no {family}; name the Python of an environment that has it, "
                f"{family}@PYTHON, or a release: {family}=={FAMILIES[family].example}"
            )
        return python, Path(origin).parent

    def _factory(self, module: str, name: str) -> TimedEngine:
        try:
            folder = str(Path.cwd())
            if folder not in sys.path:
                sys.path.append(folder)  # last, so no file in the folder hides a library
            factory = getattr(importlib.import_module(module), name)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # a module does what it likes
            raise EngineUnusable(f"{self.text}: {str(error) or type(error).__name__}") from None
        try:
            engine: Engine = factory()
        except EngineUnusable:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever a stranger's factory does
            raise EngineUnusable(f"{self.text} makes no engine: {in_one_line(error)}") from None
        parts = ("name", "version", "capabilities", "reset", "do", "recompute", "close")
        if missing := [name for name in parts if not hasattr(engine, name)]:
            wrong: str | None = f"it has no attribute {missing[0]!r}"
        elif not isinstance(engine.capabilities, Capabilities):
            wrong = "the attribute 'capabilities' is not a Capabilities object"
        else:
            wrong = engine.capabilities.senseless()
        if wrong is not None:
            raise EngineUnusable(f"{self.text} makes no engine: {wrong}")
        return CheckedEngine(engine, self.step_timeout)


def torch_missing(error: ModuleNotFoundError) -> Exception:
    """Return the exception to raise if the reference engine can't be imported."""
    if error.name != "torch":
        return error
    return EngineUnusable("the reference engine needs torch: pip install 'slotproof[reference]'")


def patches_for(text: str, wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the ``wanted`` patches if the engine can be patched. Otherwise return none.

    >>> patches_for("sglang==0.5.23", ["queued-abort"]), patches_for("reference", ["queued-abort"])
    (('queued-abort',), ())
    """
    family = FAMILIES.get(text.partition("==")[0])
    return tuple(wanted) if family is not None and family.patches else ()


def is_ours(text: str) -> bool:
    """Return True if a trace file may choose the engine: only the reference engine or a mutant.

    A trace file may come from anywhere. Only the user may choose code from outside slotproof.

    >>> is_ours("reference:leak-full"), is_ours("reference-transformer")
    (True, True)
    >>> [is_ours(name) for name in ("cmd:rm -r /", "sglang==0.5.23", "sglang:main", "reference==1")]
    [False, False, False, False]
    """
    return text.partition("@")[0].partition(":")[0] in MODELS
