"""Mutants of the spec × what became of them: killed by which obligation, or proved equivalent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slotproof_model.proofs.kill import Verdict


@dataclass
class SpecTable:
    """One line per transition, and every verdict."""

    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def survivors(self) -> list[str]:
        return [each.mutant for each in self.verdicts if each.fate == "survives"]

    def document(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "mutants": len(self.verdicts),
            "fates": dict(Counter(each.fate for each in self.verdicts)),
            "survivors": self.survivors,
            "killed_by": dict(self._clauses().most_common()),
            "verdicts": [asdict(each) for each in self.verdicts],
        }

    def markdown(self) -> str:
        """Transitions × fates, then clauses × kills."""
        lines = [
            "| transition | mutants | killed | equivalent | survive |",
            "|---|---|---|---|---|",
        ]
        for name in dict.fromkeys(each.mutant.partition("/")[0] for each in self.verdicts):
            mine = [each.fate for each in self.verdicts if each.mutant.partition("/")[0] == name]
            lines.append(_row(name, mine))
        lines.append(_row("all", [each.fate for each in self.verdicts]))
        lines += ["", "| killed by | mutants |", "|---|---|"]
        lines += [f"| {clause} | {number} |" for clause, number in self._clauses().most_common()]
        why = Counter(each.by for each in self.verdicts if each.fate == "equivalent")
        lines += ["", "| equivalent, proved: it allows | mutants |", "|---|---|"]
        lines += [f"| {reason} | {number} |" for reason, number in why.most_common()]
        lines += [f"\nsurvives: {name}" for name in self.survivors]
        return "\n".join(lines)

    def _clauses(self) -> Counter[str]:
        """Kills by invariant; a family (ALLOWS, MEANS) counts as one."""
        killed = [each.by.split(" / ")[1] for each in self.verdicts if each.fate == "killed"]
        return Counter(clause.partition(".")[0] for clause in killed)


def _row(name: str, fates: Sequence[str]) -> str:
    counts = " | ".join(str(fates.count(fate)) for fate in ("killed", "equivalent", "survives"))
    return f"| {name} | {len(fates)} | {counts} |"


def collect(verdicts: Iterable[Verdict], tell: Callable[[int], None]) -> SpecTable:
    """All of them, as they come; ``tell`` is given how many there are."""
    table = SpecTable()
    for verdict in verdicts:
        table.verdicts.append(verdict)
        tell(len(table.verdicts))
    return table
