"""``make prose`` complains of the words that it should complain of."""

from pathlib import Path

import pytest

from tests.prose import complaints

BUDGETS = {"docstrings": 7.0, "documents": 6.0, "sentence": 30}
GOOD = '"""Pages of the pool."""\n\n\ndef free(page):\n    """Free a page."""\n    return page\n'


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for package in ("model", "impl", "conformance", "docs"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "a.py").write_text(GOOD)
    (tmp_path / "README.md").write_text("# Pages\n\nA page is free or owned.\n")
    return tmp_path


def test_plain_words_pass(tree: Path) -> None:
    (tree / "model" / "tests").mkdir()
    (tree / "model" / "tests" / "a.py").write_text('"""What each of them does."""\n')
    (tree / "docs" / "reference").mkdir()
    (tree / "docs" / "reference" / "a.md").write_text("What it is that they do.\n")
    (tree / "docs" / "a.md").write_text("```\nwhat which that\n```\n\n| which | that |\n")
    assert list(complaints(tree, BUDGETS)) == []


@pytest.mark.parametrize(
    ("path", "text", "complaint"),
    [
        ("model/a.py", '"""Whether a page is free."""\n', "model/a.py:1: begins with Whether"),
        ("impl/a.py", '"""The one that it is."""\n', "impl: 60.0 fillers per 100 words"),
        ("model/tests/a.py", "each = 1\n", "model/tests/a.py:1: 'each' is the name of a thing"),
        ("impl/a.py", "def f(found):\n    pass\n", "impl/a.py:1: 'found' is the name"),
        ("conformance/a.py", "[here for here in ()]\n", "conformance/a.py:1: 'here' is the name"),
        ("docs/a.md", "page " * 31 + "\n", "docs/a.md:1: 31 words: page page page"),
        ("README.md", "Those pages are free.\n", "documents: 25.0 fillers per 100 words"),
    ],
)
def test_other_words_are_named(tree: Path, path: str, text: str, complaint: str) -> None:
    (tree / path).parent.mkdir(exist_ok=True)
    (tree / path).write_text(text)
    (said,) = complaints(tree, BUDGETS)
    assert said.startswith(complaint)
