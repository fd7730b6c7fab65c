"""``slotproof report``: journals of long runs, merged into one page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

from slotproof.cli import options
from slotproof.cli.all_findings import said
from slotproof.cli.errors import UsageProblem
from slotproof.cli.options import option, writing
from slotproof.search import report as summaries
from slotproof.search.baseline import Baseline, load as load_baseline
from slotproof.search.causes import Cause, causes
from slotproof.search.folder import Folder, by_mark
from slotproof.search.gate import beside
from slotproof.search.journal import SUFFIX, BadJournal, Run, read
from slotproof.search.page import left, merged, render
from slotproof.search.patches import words_of
from slotproof.support.files import write_whole
from slotproof.support.terminal import labelled

PAGE = Path("report.html")
BASELINE_HELP = "Baseline whose findings are listed last, with their reasons."


def report(
    folders: list[Path] = typer.Argument(metavar="FOLDER...", help="Folders of `run --all`."),
    baseline: Path | None = option("--baseline FILE", "Search", BASELINE_HELP),
    out: Path = option("--out FILE", "Output", "Report page, with a folder of traces.", PAGE),
    as_json: bool = options.JSON,
) -> int:
    """Merge the journals of `run --all` into one HTML page, with unexplained causes first."""
    entries = Baseline() if baseline is None else load_baseline(baseline)
    runs = [run for folder in folders for run in _runs(folder)]
    options.writable_file(out, "--out")
    folder = Folder(beside(out), by_mark("merged"))
    options.writable(folder.out, "--out")
    try:
        outcome, plan, points = merged(runs)
        subject = runs[0].head.subject
        summary = summaries.summary(outcome, plan, subject.capabilities)
        summary["seeds"] = [run.head.seed for run in runs]
    except (ArithmeticError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise BadJournal(f"{folders[0]}: {error}") from None
    removed = {name: patch for run in runs for name, patch in run.removed.items()}
    ranked = causes(outcome.findings, removed, words_of(subject.spec))
    reasons = {cause.name: cause.why for cause in ranked if cause.patch}
    reasons |= dict(_listed(ranked, entries, subject.engine))
    ranked = sorted(ranked, key=lambda cause: cause.name in reasons)
    folder.keep(outcome.findings)
    page = render(runs, outcome, points, ranked, reasons, summary, folder.path, out.parent)
    with writing(out, "--out"):
        write_whole(out, page)
    sure = [*left(outcome, points)]
    summary, lines = said({**summary, "left": sure, "page": str(out)}, ranked, folder)
    return options.answer(summary, [*lines, "", *sure, labelled("page", str(out))], as_json)


def _runs(folder: Path) -> list[Run]:
    """Return each journal's last campaign. Raises :class:`UsageProblem` if there is no campaign."""
    paths = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else [folder]
    try:
        last = [runs[-1] for path in paths if (runs := read(path)[0])]
    except BadJournal as bad:
        hint = f"report takes a folder of `slotproof run --all --out FOLDER`, or its *{SUFFIX}"
        raise BadJournal(f"{bad}; {hint}") from None
    if not last:
        problem = f"{paths[0]} is empty or torn" if paths else f"{folder} has no journal"
        out = paths[0].parent if paths else folder
        raise UsageProblem(f"{problem}: `slotproof run --all --out {out}` writes it")
    return last


def _listed(ranked: Sequence[Cause], entries: Baseline, engine: str) -> Iterator[tuple[str, str]]:
    """Yield the causes listed in a baseline, with the reason."""
    for cause in ranked:
        for group in entries.of(engine):
            if any(group.lists(finding.mark) for finding in cause.findings):
                yield cause.name, f"{group.name}: {group.reason or 'no reason is given'}"
                break
