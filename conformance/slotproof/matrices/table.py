"""A table of findings: as Markdown, as JSON and as a picture."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from slotproof.support.files import write_whole
from slotproof.support.markup import templates
from slotproof.support.terminal import json_text

LEFT, TOP, CELL, LINE = 330, 96, 74, 24
"""Pixels of the picture: of the names, of the slanted heads, of a column, of a row."""


@dataclass(frozen=True)
class Cell:
    """What is said of a row in a column."""

    text: str = ""
    kind: Literal["bad", "good", "odd", "none"] = "none"
    """Something was found; it is not there; it can't be said; nothing to say."""
    link: str | None = None
    """A file, as seen from the table."""
    title: str = ""
    """More about it."""


@dataclass(frozen=True)
class Row:
    name: str
    note: str
    cells: list[Cell]
    page: str | None = None
    """What has been written about it, as seen from the table: its name and cells lead there."""


@dataclass
class Table:
    """What ``slotproof matrix`` writes; a notebook shows its picture.

    >>> Table("T", "bug", ["a"], [Row("x", "", [Cell("3", "good")])])._repr_svg_()[:4]
    '<svg'
    """

    title: str
    corner: str
    """What the rows are."""
    columns: list[str]
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def family(self) -> str:
        """What the releases in the columns are of, if all are of one engine.

        >>> Table("T", "bug", ["vllm==0.33.0", "vllm==0.31.0", "gone in"]).family
        'vllm'
        """
        found = {
            name for name, equals, _ in (each.partition("==") for each in self.columns) if equals
        }
        return found.pop() if len(found) == 1 else ""

    def brief(self, text: str) -> str:
        """A release without the engine that all are of."""
        return text.replace(f"{self.family}==", "") if self.family else text

    def _repr_svg_(self) -> str:
        return svg(self)


def markdown(table: Table) -> str:
    """The table in Markdown.

    >>> written = Row("z", "", [Cell("4", link="t.json")], page="z.md")
    >>> rows = [Row("x|y", "n", [Cell("3", link="t.json")]), written]
    >>> print(markdown(Table("T", "bug", ["toy==1"], rows)))
    # T: toy
    <BLANKLINE>
    | bug | 1 |
    |---|---|
    | x&#124;y | [3](t.json) |
    | [z](z.md) | [4](z.md) |
    <BLANKLINE>
    """

    return templates("matrices").get_template("table.md.jinja").render(table=table)


def svg(table: Table) -> str:
    """Columns whose cells are marked (good, bad, odd) anywhere; the others are text in the table.

    >>> drawn = svg(Table("T", "bug", ["a", "b"], [Row("x<y", "", [Cell("3", "good"), Cell("?")])]))
    >>> "x&lt;y" in drawn, ">a<" in drawn, ">b<" in drawn
    (True, True, False)
    """
    shown = [
        index
        for index, _ in enumerate(table.columns)
        if any(  # a text that fits into a cell
            row.cells[index].kind != "none" and len(row.cells[index].text) <= 6
            for row in table.rows
        )
    ]
    sizes = {"left": LEFT, "top": TOP, "cell": CELL, "line": LINE}
    width, height = LEFT + CELL * len(shown) + 40, TOP + LINE * len(table.rows) + 16
    template = templates("matrices").get_template("picture.svg.jinja")
    return template.render(sizes, table=table, shown=shown, width=width, height=height)


def write(table: Table, out: Path) -> None:
    """``matrix.md``, ``.json`` and ``.svg`` in the folder. Raises ``OSError``."""
    write_whole(out / "matrix.md", markdown(table))
    write_whole(out / "matrix.json", json_text(asdict(table)))
    write_whole(out / "matrix.svg", svg(table))
