"""``slotproof report``: the journals of long runs as one page."""

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
BASELINE_HELP = "List causes with a finding of this baseline as known."


def report(
    folders: list[Path] = typer.Argument(metavar="FOLDER...", help="Folders of `run --all`."),
    baseline: Path | None = option("--baseline FILE", "Search", BASELINE_HELP),
    out: Path = option("--out FILE", "Output", "The page; its traces are beside it.", PAGE),
    as_json: bool = options.JSON,
) -> int:
    """Merge the journals of `run --all` into one HTML page: new causes first, then known ones."""
    entries = Baseline() if baseline is None else load_baseline(baseline)
    runs = [each for folder in folders for each in _runs(folder)]
    options.writable_file(out, "--out")
    folder = Folder(beside(out), by_mark("merged"))
    options.writable(folder.out, "--out")
    try:
        outcome, plan, points = merged(runs)
        subject = runs[0].head.subject
        capabilities = subject.capabilities
        summary = summaries.summary(outcome, plan, capabilities)
        summary["seeds"] = [run.head.seed for run in runs]
    except (ArithmeticError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise BadJournal(f"{folders[0]}: {error}") from None
    removed = {name: patch for run in runs for name, patch in run.removed.items()}
    found = causes(outcome.findings, removed, words_of(subject.spec))
    reasons = {each.name: each.why for each in found if each.patch}
    reasons |= dict(_listed(found, entries, subject.engine))
    found = sorted(found, key=lambda each: each.name in reasons)
    folder.keep(outcome.findings)
    page = render(runs, outcome, points, found, reasons, summary, folder.path, out.parent)
    with writing(out, "--out"):
        write_whole(out, page)
    sure = [*left(outcome, points)]
    summary, lines = said({**summary, "left": sure, "page": str(out)}, found, folder)
    return options.answer(summary, [*lines, "", *sure, labelled("page", str(out))], as_json)


def _runs(folder: Path) -> list[Run]:
    """Return the last campaign of each journal. Raises :class:`UsageProblem` if there is none."""
    paths = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else [folder]
    found = [runs[-1] for path in paths if (runs := read(path)[0])]
    if not found:
        raise UsageProblem(
            f"{folder} has no journal: `slotproof run --all --out {folder}` writes it"
        )
    return found


def _listed(found: Sequence[Cause], entries: Baseline, engine: str) -> Iterator[tuple[str, str]]:
    """Yield the causes that a baseline lists, and its reasons."""
    for cause in found:
        for group in entries.of(engine):
            if any(group.lists(each.mark) for each in cause.findings):
                yield cause.name, f"{group.name}: {group.reason or 'no reason is given'}"
                break
