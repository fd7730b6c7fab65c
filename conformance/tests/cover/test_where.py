"""Where to look: the methods that make a transition, and the frame of an engine's crash."""

from __future__ import annotations

import ast
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slotproof.cli.app import status
from slotproof.engines import methods
from slotproof.engines.methods import methods_of
from slotproof.engines.reference import InProcessEngine
from slotproof.lockstep.observation import Violation
from slotproof.reports import forms
from slotproof.reports.crash import crashed_at
from slotproof.reports.localisation import suspects
from slotproof.reports.trace import Trace, from_itf, load_trace
from slotproof.reports.view import View
from slotproof_model.spec.transitions import TRANSITIONS

ROOT = Path(__file__).parents[3]
DRIVER = ROOT / "conformance" / "slotproof" / "drivers" / "sglang"
FINDINGS = ROOT / "docs" / "findings"
RETRACTS = FINDINGS / "sglang-0.5.23-retract-finishes.itf.json"
LAST_MOVED = ROOT / "conformance" / "tests" / "snapshots" / "no-free-tail.itf.json"
TRIED = ("0.5.10.post1", "0.5.11", "0.5.12", "0.5.13", "0.5.15", "0.5.18", "0.5.23")


# Methods ------------------------------------------------------------------------------------


def offered() -> dict[str, set[str]]:
    """Return the transitions of the SGLang driver: always, and for builds of a profile."""
    transitions = {}
    for node in ast.parse((DRIVER / "slotproof_sglang" / "engine.py").read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name in ("TRANSITIONS", "PUBLISHES"):
                text = ast.unparse(node.value)
                transitions[name] = set(re.findall(r"T-[A-Z-]+", text))
    return transitions


@pytest.mark.parametrize("release", TRIED)
def test_whatever_the_driver_tells_of_has_methods(release: str) -> None:
    """For each release the driver was tried with."""
    names = offered()
    wanted = names["TRANSITIONS"] | (names["PUBLISHES"] if release == "0.5.23" else set())
    made = methods_of(f"sglang {release}")
    assert len(wanted) > 25 and wanted <= made.keys() <= TRANSITIONS.keys()
    assert all(made.values())


def test_releases_between_are_known_and_others_are_not() -> None:
    """A table holds from one inspected release to the next."""
    flat, copies, records = (
        methods_of(f"sglang {release}")["T-RESTORE"]
        for release in ("0.5.10.post1", "0.5.14", "0.5.23")
    )
    assert "SessionAwareCache.match_prefix" in flat
    assert "SessionSlot.restore_to_req" in copies
    assert records[-1] == "StreamingSession._free_tail"
    assert methods_of("sglang 0.5.18+cpu") == methods_of("sglang 0.5.18")
    for unknown in ("sglang 0.5.9", "sglang 0.6", "sglang", "sglang main", "toy 0.5.18", ""):
        assert methods_of(unknown) == {}, unknown


def test_the_reference_engine_is_asked_by_its_source() -> None:
    """A method in its source names every transition it reports."""
    made = methods_of("reference 1 with 22213-double-count")
    assert made.keys() >= InProcessEngine().capabilities.transitions
    assert made["T-RESTORE"] == ("SessionCache.match_prefix",)
    assert made == methods_of("reference-transformer 1")


def shown(path: Path, **changes: Any) -> dict[str, str]:
    """Return the section on where to look, from each form of a trace that has it."""
    trace = replace(load_trace(path), **changes)
    whole = {form: forms.form(form, trace, "x") for form in ("text", "markdown", "html")}
    whole["json"] = json.dumps(forms.document(trace)["where_to_look"], ensure_ascii=False)
    ends = {"text": "\nseed ", "markdown": "| | command", "html": "</ul>\n</div>", "json": "\0"}
    return {
        name: text.partition("Where to look")[2].partition(ends[name])[0]
        if name != "json"
        else text
        for name, text in whole.items()
    }


def test_methods_are_beside_each_transition_in_every_form() -> None:
    for name, text in shown(RETRACTS).items():
        for event, method in (
            ("T-RETRACT r1", "ScheduleBatch.retract_decode"),
            ("T-RESTORE r1", "StreamingSession._free_tail"),
        ):
            assert event in text and method in text, (name, text)
            assert text.index(event) < text.index(method)
    for name, text in shown(LAST_MOVED).items():  # transitions that moved the figure, too
        assert "SessionCache.cache_finished_req" in text, name


def test_the_release_of_the_trace_decides() -> None:
    """An unknown build has no methods, but its transitions are named."""
    for text in shown(RETRACTS, engine="sglang 0.5.10.post1").values():
        assert "SessionAwareCache.match_prefix" in text and "StreamingSession" not in text
    for text in shown(RETRACTS, engine="sglang 0.5.99").values():
        assert "T-RESTORE r1" in text and "match_prefix" not in text


def test_what_is_shown_for_machines_can_be_read_again() -> None:
    trace = load_trace(RETRACTS)
    assert from_itf(forms.document(trace)) == trace
    assert [suspect.to_json() for suspect in suspects(View(trace))] == forms.document(trace)[
        "where_to_look"
    ]


def test_the_last_release_is_the_newest() -> None:
    assert methods.newest("sglang") == TRIED[-1]


# Crashes ------------------------------------------------------------------------------------

SITE = "/envs/sglang/lib/python3.11/site-packages"
ENGINES = f"""  File "{SITE}/sglang/srt/mem_cache/radix_cache.py", line 412, in _delete_leaf
    del node.parent.children[key]
"""
LIBRARYS = f"""  File "{SITE}/torch/_tensor.py", line 9, in __delitem__
  File "/usr/lib/python3.11/collections/__init__.py", line 8, in pop
"""
DRIVERS = '  File "/x/slotproof/drivers/sglang/slotproof_sglang/events.py", line 7, in wrapped\n'
SOURCES = '  File "/home/me/sglang/python/sglang/srt/x.py", line 6, in f\n'
STRANGERS = '  File "/home/me/mine.py", line 5, in g\n'
AT = "sglang/srt/mem_cache/radix_cache.py:412 in _delete_leaf"


def crash(said: str, engine: str, spec: str, fault: str | None = None) -> str:
    trace: Trace = replace(load_trace(RETRACTS), engine=engine, spec=spec)
    return crashed_at(trace, Violation("INV-ALIVE", "crash", "KeyError: 3", said=said, fault=fault))


@pytest.mark.parametrize(
    ("said", "spec", "where"),
    [
        (DRIVERS + ENGINES, "sglang==0.5.23", AT),
        (DRIVERS + ENGINES + LIBRARYS, "sglang==0.5.23", AT),
        (ENGINES + DRIVERS, "sglang", AT),
        (SOURCES + LIBRARYS, "cmd:my-driver", "sglang/srt/x.py:6 in f"),
        (DRIVERS + LIBRARYS, "sglang", ""),
        (STRANGERS + LIBRARYS, "cmd:my-driver", "mine.py:5 in g"),
        (SOURCES + STRANGERS, "mine:make", "mine.py:5 in g"),
        (
            '  File "/x/impl/slotproof_engine/memory/rows.py", line 3, in take\n' + LIBRARYS,
            "reference:x",
            "slotproof_engine/memory/rows.py:3 in take",
        ),
        (
            f'  File "{SITE}/slotproof_engine/memory/rows.py", line 3, in take\n',
            "reference",
            "slotproof_engine/memory/rows.py:3 in take",
        ),
        ("KeyError: 3", "sglang", ""),
        ('  File "<string>", line 1, in <module>\n', "cmd:my-driver", ""),
    ],
)
def test_the_last_frame_of_the_engine(said: str, spec: str, where: str) -> None:
    """The last frame reported, outside of the driver and of libraries."""
    assert crash("Traceback (most recent call last):\n" + said, "sglang 0.5.23", spec) == where


def test_what_a_driver_said_by_the_way_is_no_crash_of_the_engine() -> None:
    """Only output at the death of the driver counts."""
    assert crash(ENGINES, "sglang 0.5.23", "sglang", "death") == AT
    for fault in ("garbage", "nonsense", "hang"):
        assert crash(ENGINES, "sglang 0.5.23", "sglang", fault) == ""


PACKAGE = {
    "__init__.py": """
from slotproof.engines.reference import InProcessEngine
from mine.tree import delete_leaf
import hooks

class Mine(InProcessEngine):
    name = "mine"

    def do(self, command):
        return delete_leaf(hooks.look) if command["do"] == "step" else super().do(command)
""",
    "tree.py": """
def delete_leaf(look):
    return look("{")
""",
}
HOOKS = "import json\ndef look(text):\n    return json.loads(text)\n"


@pytest.mark.slow
@pytest.mark.parametrize("way", ["in process", "behind a pipe"])
def test_the_headline_of_a_crash_says_where(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The engine calls a hook of the driver, and the hook calls a library."""
    (tmp_path / "mine").mkdir()
    for name, text in PACKAGE.items():
        (tmp_path / "mine" / name).write_text(text)
    (tmp_path / "hooks.py").write_text(HOOKS)
    for name in ("mine", "mine.tree", "hooks"):  # other tests import modules with the same names
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    served = f"cmd:{sys.executable} -m slotproof.engines.served mine:Mine"
    engine = "mine:Mine" if way == "in process" else served
    argv = ["--config", "p1", "--examples", "3", "--out", str(tmp_path / "out")]
    assert status(["run", "--engine", engine, *argv]) == 1
    where = "mine/tree.py:3 in delete_leaf"
    head = capsys.readouterr().out.splitlines()[0]
    assert head.startswith("INV-ALIVE.crash violated by mine ") and head.endswith(f", at {where}")
    (path,) = (tmp_path / "out").glob("*.itf.json")
    page = forms.form("html", load_trace(path), "x")
    assert f"(at {where})</h1>" in page.replace("&#39;", "'")
    title = forms.form("markdown", load_trace(path), "x").splitlines()[0]
    assert title.startswith("## The engine crashed: JSONDecodeError") and "delete\\_leaf" in title
    for name in ("mine", "mine.tree", "hooks"):
        sys.modules.pop(name, None)
