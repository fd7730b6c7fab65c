"""``make prose``: check the words of docstrings and documents, and the names of variables.

``budgets.toml`` limits fillers per 100 words, for each package and for the documents, and the words
of a sentence. A docstring begins with a verb or a noun. A local name is not a pronoun.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("model", "impl", "conformance")
DOCUMENTS = ("README.md", "docs")
FIRST = frozenset(("What", "Whether", "Of", "Who", "Those", "Whose", "That"))
"""A docstring begins with a verb or a noun, not with these."""
NAMES = frozenset(("each", "found", "here", "there", "mine", "those"))
"""A local name is a noun of the field, not one of these."""


class Text(NamedTuple):
    """A docstring or a document."""

    path: Path
    line: int
    words: str


def words(text: str) -> list[str]:
    """Return the words of a text, numbers and signs apart.

    >>> words("A slot's KV: 3 pages.")
    ['A', "slot's", 'KV', 'pages']
    """
    return re.findall(r"[A-Za-z][A-Za-z']*", text)


FILLERS = frozenset(
    words(
        "who whom whose what which that those such one ones it they them there so none others "
        "other each these this"
    )
)


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences. A colon ends one, and so do a blank line and a list's mark.

    >>> list(sentences("A page is free. It is\\n\\n- allocated, or\\n- evicted"))
    ['A page is free.', 'It is', ' allocated, or\\n', ' evicted']
    """
    parts = re.split(r"(?<=[.!?:])\s+|\n\s*\n|^\s*[-*#|]", text, flags=re.MULTILINE)
    return (part for part in parts if part)


def plain(markdown: str) -> str:
    """Return the prose of a document: no code, link targets or tables.

    >>> plain("See [page](x.md) and `code`.")
    'See [page  and  .'
    """
    markdown = re.sub(r"```.*?```", " ", markdown, flags=re.DOTALL)
    aside = r"<[^>]+>|`[^`]*`|\]\([^)]*\)|^ {4}.*$|^\|.*\|$"
    return re.sub(aside, " ", markdown, flags=re.MULTILINE)


def docstrings(path: Path, tree: ast.Module) -> Iterator[Text]:
    """Yield the docstrings of a module, its classes and functions, without their examples."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text:
                yield Text(path, node.body[0].lineno, text.partition(">>>")[0])


def pronouns(path: Path, tree: ast.Module) -> Iterator[str]:
    """Yield a complaint for each local name that is a pronoun. Fields of classes are not local."""
    fields = {
        statement.target
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        name = node.arg if isinstance(node, ast.arg) else None
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in fields:
            name = node.id
        if name in NAMES:
            assert isinstance(node, (ast.arg, ast.Name))
            yield f"{path}:{node.lineno}: {name!r} is the name of a thing: take a noun"


def fillers(texts: Sequence[Text]) -> float:
    """Return pronouns and fillers per 100 words."""
    every = [word.lower() for text in texts for word in words(text.words)]
    return 100 * sum(word in FILLERS for word in every) / max(1, len(every))


def long(texts: Sequence[Text], most: int) -> Iterator[str]:
    """Yield a complaint for every sentence that has more words than ``most``."""
    for text in texts:
        for sentence in sentences(text.words):
            if len(words(sentence)) > most:
                start = " ".join(sentence.split()[:8])
                yield f"{text.path}:{text.line}: {len(words(sentence))} words: {start} …"


def complaints(root: Path, budgets: dict[str, float]) -> Iterator[str]:
    """Yield what is wrong with the words of a tree, one line each."""
    for package in PACKAGES:
        texts: list[Text] = []
        for path in sorted((root / package).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            yield from pronouns(path.relative_to(root), tree)
            if "tests" not in path.parts:
                texts += docstrings(path.relative_to(root), tree)
        yield from (
            f"{text.path}:{text.line}: begins with {word}: begin with a verb or a noun"
            for text in texts
            for word in words(text.words)[:1]
            if word in FIRST
        )
        yield from _judged(package, texts, budgets["docstrings"], budgets)
    files = (path for name in DOCUMENTS for path in _markdown(root / name))
    pages = [Text(path.relative_to(root), 1, plain(path.read_text("utf-8"))) for path in files]
    yield from _judged("documents", pages, budgets["documents"], budgets)


def _judged(
    name: str, texts: Sequence[Text], most: float, budgets: dict[str, float]
) -> Iterator[str]:
    share = fillers(texts)
    print(f"{name}: {share:.1f} fillers per 100 words, at most {most}")
    if share > most:
        yield f"{name}: {share:.1f} fillers per 100 words, more than {most}"
    yield from long(texts, int(budgets["sentence"]))


def _markdown(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return [page for page in sorted(path.rglob("*.md")) if "reference" not in page.parts]


def main() -> int:
    """Print the complaints; return 1 if there are any."""
    budgets = tomllib.loads((ROOT / "budgets.toml").read_text(encoding="utf-8"))["prose"]
    wrong = list(complaints(ROOT, budgets))
    print("\n".join(wrong) or "prose: nothing to complain of")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
