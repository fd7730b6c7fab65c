"""Generated parts of `docs/reference/cli.md`: typer's help for each command.

    python docs/theme/cli.py     writes the parts anew

The examples between the parts are written by hand and run by tests (``test_docs.py``). Typer's own
generator makes a whole page, without room for examples.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slotproof.cli.commands import tree

PAGE = Path(__file__).parents[1] / "reference" / "cli.md"
PART = re.compile(r"(<!-- begin (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def commands() -> dict[str, str]:
    """Every command, groups' included, and its reference as Markdown."""
    group = tree()
    with group.make_context("slotproof", [], resilient_parsing=True) as context:
        return dict(_below(group, context, "slotproof"))


def _below(group: Any, context: Any, path: str) -> Iterator[tuple[str, str]]:
    for name, command in group.commands.items():
        full = f"{path} {name}"
        with command.make_context(name, [], parent=context, resilient_parsing=True) as inside:
            if hasattr(command, "commands"):
                yield from _below(command, inside, full)
            else:
                yield full.removeprefix("slotproof "), "\n".join(_reference(command, inside, full))


def _reference(command: Any, context: Any, path: str) -> Iterator[str]:
    yield from ("", command.help or "", "", "```text")
    yield f"{path} {' '.join(command.collect_usage_pieces(context))}"
    yield from ("```", "", "| argument or option | |", "|---|---|")
    for param in command.get_params(context):
        record = param.get_help_record(context)
        if record is not None and "--help" not in record[0]:
            name, text = (cell.replace("|", "\\|").replace("\n", " ") for cell in record)
            yield f"| `{name}` | {_plain(text)} |"
    yield ""


def _plain(text: str) -> str:
    """Return the text with brackets and angles escaped for Markdown."""
    return text.replace("[", "\\[").replace("<", "&lt;").replace("*", "\\*")


def renewed(page: str) -> str:
    """Return the page with every generated part up to date, and new commands at the end."""
    known = commands()
    present = {part[2] for part in PART.finditer(page)}
    for name in known.keys() - present:
        page += f"\n## slotproof {name}\n\n<!-- begin {name} -->\n<!-- end -->\n"
    return PART.sub(lambda part: f"{part[1]}{known.get(part[2], '')}\n{part[3]}", page)


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text()))
