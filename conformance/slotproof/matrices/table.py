"""A table of findings, as Markdown, JSON and a picture."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from slotproof.support.files import write_whole
from slotproof.support.markup import templates
from slotproof.support.terminal import json_text

LEFT, TOP, CELL, LINE = 330, 96, 74, 24
"""Pixel sizes in the picture: width of names, height of heads, width of columns, height of rows."""


@dataclass(frozen=True)
class Cell:
    """Result of a row in a column."""

    text: str = ""
    kind: Literal["bad", "good", "odd", "none"] = "none"
    """State of the finding on a build: present, absent, undecided, or without a result."""
    link: str | None = None
    """Path of a file, relative to the table."""
    title: str = ""
    """Tooltip text."""


@dataclass(frozen=True)
class Row:
    name: str
    note: str
    cells: list[Cell]
    page: str | None = None
    """Path of a page about the finding, relative to the table. The name and cells link to it."""


@dataclass
class Table:
    """Table of ``slotproof matrix``. A notebook shows its picture.

    >>> Table("T", "bug", ["a"], [Row("x", "", [Cell("3", "good")])])._repr_svg_()[:4]
    '<svg'
    """

    title: str
    corner: str
    """Heading of the column that has the row names."""
    columns: list[str]
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def family(self) -> str:
        """Engine shared by all releases in the columns, or "" for several engines.

        >>> Table("T", "bug", ["vllm==0.33.0", "vllm==0.31.0", "gone in"]).family
        'vllm'
        """
        parts = [column.partition("==") for column in self.columns]
        engines = {name for name, equals, _ in parts if equals}
        return engines.pop() if len(engines) == 1 else ""

    def brief(self, text: str) -> str:
        """Return a text without the engine name that all columns share."""
        return text.replace(f"{self.family}==", "") if self.family else text

    def _repr_svg_(self) -> str:
        return svg(self)


def markdown(table: Table) -> str:
    """Return the table in Markdown.

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
    """Return an SVG picture of the columns that have results. Other columns are left out.

    >>> drawn = svg(Table("T", "bug", ["a", "b"], [Row("x<y", "", [Cell("3", "good"), Cell("?")])]))
    >>> "x&lt;y" in drawn, ">a<" in drawn, ">b<" in drawn
    (True, True, False)
    """
    shown = [
        index
        for index, _ in enumerate(table.columns)
        if any(  # only a short text fits into a cell
            row.cells[index].kind != "none" and len(row.cells[index].text) <= 6
            for row in table.rows
        )
    ]
    sizes = {"left": LEFT, "top": TOP, "cell": CELL, "line": LINE}
    width, height = LEFT + CELL * len(shown) + 40, TOP + LINE * len(table.rows) + 16
    template = templates("matrices").get_template("picture.svg.jinja")
    return template.render(sizes, table=table, shown=shown, width=width, height=height)


def write(table: Table, out: Path) -> None:
    """Write ``matrix.md``, ``.json`` and ``.svg`` to the folder. Raises ``OSError``."""
    write_whole(out / "matrix.md", markdown(table))
    write_whole(out / "matrix.json", json_text(asdict(table)))
    write_whole(out / "matrix.svg", svg(table))
