"""The driver's messages: JSON lines on standard input and output.

This process imports the engine once and holds no scheduler. For each shape of
configuration it forks a *template*, which builds a scheduler (SGLang has globals: one per
process); for each example the template forks a *child*, so that every example starts from
the same state and a crash takes only the child. See `processes.py`.
"""

from __future__ import annotations

import argparse
from typing import Any

from slotproof_driver import serving

from . import boot, mends, processes


class Driver(serving.Driver):
    """Answers the protocol's requests, most of them through a child."""

    name = "sglang"

    def __init__(self, asked: list[str]) -> None:
        super().__init__()
        self.templates = processes.Templates()
        self.asked = asked
        #: Patches that are in place.
        self.mended: list[str] = []

    def load(self) -> str:
        self.mended = mends.apply(self.asked)
        return boot.import_engine()

    def capabilities(self) -> dict[str, Any]:
        """Those that a scheduler shows, for its layout decides."""
        return {**self.templates.probe(boot.normalise({})), "mends": self.mended}

    def reset(self, config: dict[str, Any]) -> None:
        self.templates.reset(boot.normalise(config))

    def do(self, command: dict[str, Any]) -> dict[str, Any]:
        return self.templates.ask({"command": command})

    def recompute(self, tokens: list[int], count: int) -> dict[str, Any]:
        return self.templates.recompute(tokens, count)

    def end(self) -> None:
        self.templates.end()


def main() -> None:
    """Serve until the end of input."""
    parser = argparse.ArgumentParser(description="The SGLang driver: JSON lines on its pipes.")
    words = f"repair a known bug: {', '.join(mends.names())}, or {mends.ALL} that fit"
    parser.add_argument("--patch", action="append", default=[], metavar="NAME", help=words)
    Driver(parser.parse_args().patch).run()
