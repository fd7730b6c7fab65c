"""The driver's messages: JSON lines on standard input and output.

This process imports the engine once and holds no scheduler. For each shape of
configuration it forks a *template*, which builds a scheduler (SGLang has globals: one per
process); for each example the template forks a *child*, so that every example starts from
the same state and a crash takes only the child. See `processes.py`.
"""

from __future__ import annotations

from typing import Any

from slotproof_driver import serving

from . import boot, processes


class Driver(serving.Driver):
    """Answers the protocol's requests, most of them through a child."""

    name = "sglang"

    def __init__(self, asked: list[str]) -> None:
        super().__init__(asked)
        self.templates = processes.Templates()

    def load(self) -> str:
        return boot.import_engine()

    def capabilities(self) -> dict[str, Any]:
        """Those that a scheduler shows, for its layout decides."""
        return self.templates.probe(boot.normalise({}))

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
    Driver(Driver.parser().parse_args().patch).run()
