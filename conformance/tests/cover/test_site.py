"""The documentation site: it builds without a warning, needs no network, and is complete."""

import doctest
import importlib
import importlib.util
import inspect
import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
CLI = DOCS / "reference" / "cli.md"
PUBLIC = re.findall(
    r"^::: (\S+)",
    "".join(page.read_text() for page in sorted((DOCS / "reference" / "api").glob("*.md"))),
    re.MULTILINE,
)
OUTSIDE = re.compile(
    r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=[\"']?(?:https?:)?//"
)


@pytest.mark.slow
def test_the_site_builds_and_needs_no_network(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 60
    loading = {page.name: OUTSIDE.findall(page.read_text()) for page in pages}
    assert {name: urls for name, urls in loading.items() if urls} == {}


@pytest.mark.slow
def test_search_works_from_disk(site: Path) -> None:
    """The search index is a script, and the site contains the shim that reads it."""
    assert (site / "search" / "search_index.js").read_text().startswith("var __index")
    assert 'src="theme/iframe-worker.js"' in (site / "index.html").read_text()
    assert (site / "theme" / "iframe-worker.js").exists()


@pytest.mark.slow
def test_every_document_is_in_the_site(site: Path) -> None:
    """Also files outside of `docs/` linked by a document."""
    built = {page.relative_to(site).as_posix() for page in site.rglob("*.html")}
    documents = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    pages = {page.removesuffix(".md") + ".html" for page in documents}
    assert pages - built == set()
    menu = set(re.findall(r'href="([^"#:]+\.html)"', (site / "index.html").read_text()))
    assert pages - menu - {"index.html"} == set(), "not in the menu: docs/.nav.yml"
    assert {
        "project/ARCHITECTURE.html",
        "project/model/slotproof_model/spec/memory.py.html",
    } <= built


@pytest.mark.slow
def test_every_trace_has_a_page_and_every_finding_leads_to_its_own(site: Path) -> None:
    traces = [path.relative_to(DOCS) for path in (DOCS / "findings").rglob("*.itf.json")]
    pages = [site / path.with_name(path.name.replace(".itf.json", ".html")) for path in traces]
    assert len(pages) > 150 and all(
        "slotproof counterexample" in page.read_text() for page in pages
    )
    text = (site / "findings" / "two-first-turns.html").read_text()
    lead = text.partition("Step by step:")[2].partition("</p>")[0]
    assert re.findall(r'href="([^"]+)"', lead) == [
        "sglang-0.5.23-two-first-turns.html",
        "sglang-0.5.23-two-first-turns.itf.json",
        "sglang-0.5.18-two-first-turns.html",
        "sglang-0.5.18-two-first-turns.itf.json",
        "../project/docs/findings/scripts/two-first-turns.py.html",
    ]
    findings = [
        path for path in (DOCS / "findings").glob("*.md") if "## Reproduce" in path.read_text()
    ]
    built = [site / "findings" / f"{path.stem}.html" for path in findings]
    without = [page.stem for page in built if "Step by step:" not in page.read_text()]
    assert len(built) >= 40 and without == []


@pytest.mark.slow
def test_pages_of_the_site_are_whole(site: Path) -> None:
    """List items, boxes to tick, cells with their kind, and a 404 page with its style."""
    steps = (site / "how-to" / "check-your-engine.html").read_text()
    assert "<p>Then run all configurations: leave out" in steps.replace("<li>\n", "")
    review = (site / "reference" / "spec" / "review.html").read_text()
    assert "[ ]" not in review and review.count('type="checkbox"/>') > 30
    for name in ("matrix", "matrix-vllm"):
        rows = json.loads((DOCS / "findings" / name / "matrix.json").read_text())["rows"]
        kinds = Counter(cell["kind"] for row in rows for cell in row["cells"])
        shown = (site / "findings" / name / "matrix.html").read_text()
        for kind in ("bad", "good", "odd"):
            assert shown.count(f'<td class="cell-{kind}">') == kinds[kind] > 0
        assert not re.search(r'<td class="cell-good">(?!no<)|<td>(no|other)<', shown)
    assert not re.search(r'(href|src)="/(?!/)', (site / "404.html").read_text())


def theme(name: str) -> Any:
    """Return a module of `docs/theme`, which is not a package."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / "theme" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_lists_are_indented_as_markdown_wants_it() -> None:
    pytest.importorskip("mkdocs", reason="the site needs the extra `docs`")
    assert doctest.testmod(theme("hooks")) == (0, 2)
    assert doctest.testmod(theme("findings")) == (0, 2)


def test_the_site_links_to_the_source_where_there_is_an_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mkdocs", reason="the site needs the extra `docs`")
    from mkdocs.config.defaults import MkDocsConfig

    hooks = theme("hooks")
    project = (ROOT / "pyproject.toml").read_text()
    assert hooks.on_config(MkDocsConfig()).repo_url is None
    with_source = project.replace(
        "[project.urls]\n", '[project.urls]\nSource = "https://example.org"\n'
    )
    (tmp_path / "pyproject.toml").write_text(with_source)
    monkeypatch.setattr(hooks, "ROOT", tmp_path)
    assert hooks.on_config(MkDocsConfig()).repo_url == "https://example.org"


def test_examples_of_docstrings_are_code() -> None:
    pytest.importorskip("griffe", reason="the site needs the extra `docs`")
    text = "As :func:`~a.b` says.\n\n>>> 1 + 1  # doctest: +ELLIPSIS\n2\n\nEnd."
    shown = "As `b` says.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nEnd."
    assert theme("docstrings").markdown(text) == shown


def test_the_command_line_is_documented() -> None:
    """The page matches typer's output. SLOTPROOF_UPDATE_SNAPSHOTS=1 writes it."""
    page = CLI.read_text()
    renewed = theme("cli").renewed(page)
    if os.environ.get("SLOTPROOF_UPDATE_SNAPSHOTS") == "1":
        CLI.write_text(renewed)
        page = renewed
    assert page == renewed, "the page is stale: python docs/theme/cli.py"


@pytest.mark.parametrize("command", theme("cli").commands())
def test_every_command_has_an_example(command: str) -> None:
    """An example names the command, and `test_docs.py` runs it."""
    after = CLI.read_text().partition(f"# slotproof {command}\n")[2]
    section = re.split(r"^##+ ", after, maxsplit=1, flags=re.MULTILINE)[0]
    examples = re.findall(r"^```console\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    assert f"$ slotproof {command} " in "".join(examples).replace("\n", " \n")


@pytest.mark.parametrize("name", PUBLIC)
def test_what_is_public_is_documented(name: str) -> None:
    """Every name has a docstring. A function has an example, run by `test_doctests.py`."""
    module, _, last = name.rpartition(".")
    thing = getattr(importlib.import_module(module), last)
    if inspect.isfunction(thing) or hasattr(thing, "__wrapped__"):
        assert doctest.DocTestParser().get_examples(inspect.getdoc(thing) or "")
    elif inspect.isclass(thing):
        assert thing.__doc__ and not thing.__doc__.startswith(f"{last}(")


def test_there_is_a_public_interface() -> None:
    assert len(PUBLIC) > 40
