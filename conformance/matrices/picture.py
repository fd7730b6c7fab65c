"""A table as a picture: rows × columns, a mark where there is something, readable in grey."""

from __future__ import annotations

from slotproof.conformance.markup import templates
from slotproof.conformance.matrices.table import Row, Table

LEFT, TOP, CELL, LINE = 330, 96, 74, 24
"""Pixels: of the names, of the slanted heads, of a column, of a row."""


def svg(table: Table) -> str:
    """Columns whose cells are marked (good, bad, odd) anywhere; the others are text in the table.

    >>> from slotproof.conformance.matrices.table import Cell
    >>> text = svg(Table("T", "bug", ["a", "b"], [Row("x<y", "", [Cell("3", "good"), Cell("?")])]))
    >>> "x&lt;y" in text, ">a<" in text, ">b<" in text
    (True, True, False)
    """
    shown = [
        index
        for index, _ in enumerate(table.columns)
        if any(row.cells[index].kind != "none" and _short(row, index) for row in table.rows)
    ]
    sizes = {"left": LEFT, "top": TOP, "cell": CELL, "line": LINE}
    width, height = LEFT + CELL * len(shown) + 40, TOP + LINE * len(table.rows) + 16
    template = templates("matrices").get_template("picture.svg.jinja")
    return template.render(sizes, table=table, shown=shown, width=width, height=height)


def _short(row: Row, index: int) -> bool:
    """Whether it fits into a cell."""
    return len(row.cells[index].text) <= 6
