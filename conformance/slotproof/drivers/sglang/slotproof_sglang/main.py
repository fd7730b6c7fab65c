"""Messages of the driver: JSON lines on standard input and output.

This process imports the engine once and has no scheduler. For each shape of configuration it forks
a *template*, which builds one scheduler, because SGLang has global variables. For each example the
template forks a *child*. Every example therefore starts in the same state, and a crash ends only
the child. See `processes.py`.
"""

from __future__ import annotations

from typing import Any

from slotproof_driver import serving

from . import boot, processes


class Driver(serving.Driver):
    """Driver of SGLang. The driver passes most of the protocol's requests to a child."""

    name = "sglang"

    def __init__(self, asked: list[str]) -> None:
        super().__init__(asked)
        self.templates = processes.Templates()

    def load(self) -> str:
        return boot.import_engine()

    def capabilities(self) -> dict[str, Any]:
        """Return the build's capabilities, read from the layout of a scheduler."""
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
