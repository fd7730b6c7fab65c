"""The folder that the traces of a campaign are written to."""

from __future__ import annotations

from pathlib import Path

from slotproof.conformance.search.collecting import Keeper
from slotproof.conformance.search.findings import Mark
from slotproof.conformance.traces import itf
from slotproof.conformance.traces.trace import Trace


class Folder(Keeper):
    """One file per finding, written at once; what can't be written is told, not fatal."""

    def __init__(self, out: Path, name: str, seed: int, states: bool = True) -> None:
        self.out, self.stem, self.states = out, f"{name}-seed{seed}", states
        self.problems: dict[str, str] = {}

    def path(self, mark: Mark) -> Path:
        return self.out / f"{self.stem}-{mark.slug}.itf.json"

    def keep(self, mark: Mark, trace: Trace) -> None:
        try:
            itf.save(trace if self.states else trace.without_states(), self.path(mark))
            self.problems.pop(mark.id, None)
        except OSError as error:
            self.problems[mark.id] = f"could not be written to {self.path(mark)}: {error.strerror}"

    def forget(self, mark: Mark) -> None:
        try:
            self.path(mark).unlink(missing_ok=True)
        except OSError as error:
            self.problems[mark.id] = f"{self.path(mark)}: {error.strerror}"
