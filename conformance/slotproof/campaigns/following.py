"""What a running campaign leaves to look at: traces, and the status page, every some seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from slotproof.campaigns.page import render
from slotproof.campaigns.state import CampaignState
from slotproof.search.findings import Finding
from slotproof.search.folder import SUFFIX, Folder
from slotproof.support.files import write_whole

PAGE = "status.html"
EVERY = 10.0
"""Seconds between two status pages within a round."""

Show = Callable[[CampaignState, int], None]
"""Told of the state, and of examples that are run and not journalled."""


class Following:
    """A :class:`~slotproof.campaigns.running.Watcher`.

    What can't be written is told at the end, and ends nothing: the journal has it all.
    """

    def __init__(self, folder: Path, traces: Folder, show: Show) -> None:
        self.path, self.traces, self.show = folder / PAGE, traces, show
        self.problem = ""
        """Why the page is not as it should be."""
        self._written = 0.0

    def moved(self, state: CampaignState, running: int) -> None:
        self.show(state, running)
        if time.monotonic() - self._written > EVERY:
            self.write(state, running)

    def found(self, findings: list[Finding]) -> None:
        self.traces.keep(findings)

    def sweep(self) -> None:
        """What a process left that was killed, and is no finding any more, goes: the folder shows
        what the journal has."""
        there = {*self.traces.paths.values()}
        for path in self.traces.out.glob(f"*{SUFFIX}"):
            if path not in there:
                with suppress(OSError):
                    path.unlink()

    def rounded(self, state: CampaignState) -> None:
        self.show(state, 0)
        if time.monotonic() - self._written > 1.0:
            self.write(state)

    def write(self, state: CampaignState, running: int = 0, ended: str = "") -> None:
        """The status page, as it is now; ``ended`` is how the call ended."""
        self._written = time.monotonic()
        self.traces.keep(state.findings.all())
        try:
            page = render(state, running, ended, self.traces.path, self.path.parent)
            write_whole(self.path, page)
        except OSError as error:
            self.problem = f"{self.path} can't be written to: {error.strerror}"
