"""The SGLang driver without a build: its answers on layouts, known and unknown."""

from __future__ import annotations

import importlib
import os
import re
import socket
from collections.abc import Generator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from slotproof.drivers.sglang.slotproof_sglang import (
    boot,
    channel,
    dialects,
    engine,
    events,
    options,
    processes,
    replay,
    speculation,
    window,
)
from slotproof.drivers.sglang.slotproof_sglang.channel import Channel, fork
from slotproof.drivers.sglang.slotproof_sglang.dialects import checks
from slotproof.drivers.sglang.slotproof_sglang.free_list import FreeList
from slotproof.lockstep.abstraction import UNSHOWN
from slotproof_model.evaluation.layout import LAYOUT, OWN

from slotproof_driver.usage import UsageError  # isort: skip  # found through the driver's package

DRIVER = Path(processes.__file__).parent
LAYOUTS = {"flat": ["wrapper", "flat"], "wrapper": ["wrapper"], "record": ["record"]}
"""The tables to read for a layout, after the table of `base`."""


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_dialect_says_where_each_field_of_the_spec_is(layout: str) -> None:
    modules = [
        importlib.import_module(f"{dialects.__name__}.{name}")
        for name in ("base", *LAYOUTS[layout])
    ]
    said = {
        name
        for module in modules
        for cell in re.findall(r"^\| ([a-z]+\.[\w., ]+) \| `", module.__doc__ or "", re.MULTILINE)
        for name in cell.split(", ")
    }
    wanted = {name for name in LAYOUT if name.partition(".")[0] not in ("swa", "frame", "config")}
    wanted -= {name for name, index in OWN.items() if index in UNSHOWN}
    assert wanted - said == set()
    assert said - wanted == set()


def test_an_unknown_layout_is_one_clear_line() -> None:
    strange = SimpleNamespace(tree_cache=SimpleNamespace(inner=None))
    with pytest.raises(UsageError) as caught:
        dialects.choose(strange)
    assert str(caught.value) == (
        "unknown layout: the cache is types.SimpleNamespace; known are "
        "UnifiedRadixCache.session (one KV record), UnifiedRadixCache.session, StreamingSession "
        "(a wrapper), SessionAwareCache (no flag for a turn in flight)"
    )


def allocator(**fields: Any) -> Any:
    tensors = {
        name: torch.tensor(value) for name, value in fields.items() if isinstance(value, list)
    }
    return SimpleNamespace(**{"free_group": None, "release_pages": None, **fields, **tensors})


@pytest.mark.parametrize(
    ("fields", "pages", "deferred"),
    [
        ({"is_not_in_free_group": True, "free_group": (torch.tensor([16]),)}, [3, 1], False),
        ({"is_not_in_free_group": False, "free_group": (torch.tensor([16]),)}, [3, 1, 4], True),
        ({"release_pages": [9]}, [3, 1, 9], False),
        ({"free_group": (), "full_free_group": (torch.tensor([20, 21]),)}, [3, 1, 5], True),
        ({"free_group": (), "free_page_ids_group": (torch.tensor([7]),)}, [3, 1, 7], False),
        ({"staged_pages": (torch.tensor([8, 8]),)}, [3, 1, 8, 8], False),
    ],
    ids=["a group that is over", "flag", "released", "0.5.19", "pages", "staged twice"],
)
def test_what_is_free(fields: dict[str, Any], pages: list[int], deferred: bool) -> None:
    """In each generation. A page freed twice stays visible (INV-OWNER)."""
    free = FreeList(allocator(free_pages=[3, 1], **fields), page_size=4)
    assert (free.pages(), free.count(), free.deferred()) == (pages, len(pages), deferred)


@pytest.mark.parametrize(
    ("told", "retract"), [("T-RETRACT", "keep"), ("T-RETRACT-WIPE", "wipe"), (None, "keep")]
)
def test_a_build_is_asked_what_it_does_with_a_retracted_turn(
    told: str | None, retract: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None: the build fails before it reports the event."""

    def ask(_: Any, message: dict[str, Any]) -> dict[str, Any]:
        if message["command"] != processes.RETRACTION[-1]:
            return {"ok": True, "result": {"snapshots": [{"events": []}]}}
        snapshots: list[dict[str, Any]] = [{"events": [[told, "s", "r2", {}]]}]
        return {"ok": True, "result": {"snapshots": snapshots}} if told else {"ok": False}

    for name in ("reset", "_finish"):
        monkeypatch.setattr(processes.Templates, name, lambda *_: None)
    monkeypatch.setattr(processes.Templates, "ask", ask)
    assert processes.Templates()._retraction({}) == retract
    monkeypatch.setattr(speculation, "scriptable", lambda: True)
    monkeypatch.setattr(window, "attended", lambda: True)
    monkeypatch.setattr(options, "offered", dict)
    offered = engine.capabilities("sglang", {**boot.LIMITS, "retract": [retract]})
    assert offered["config"]["retract"] == [retract]
    assert (engine.WIPED in offered["transitions"]) == (retract == "wipe")
    assert (engine.KEPT in offered["transitions"]) == (retract == "keep")


def test_a_method_that_is_gone_is_one_clear_line() -> None:
    nobody: Any = None
    with pytest.raises(UsageError, match=r"^unknown layout: types.SimpleNamespace has no _x$"):
        events.Wrapper._wrap(nobody, SimpleNamespace(), "_x", print)


def test_a_check_that_is_nowhere_is_one_clear_line() -> None:
    with pytest.raises(UsageError, match=r"^unknown layout: SimpleNamespace has no memory c"):
        checks.watch(SimpleNamespace(), None)


class Crashing:
    """A template whose engine crashes at its first step, in a given file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __call__(self, message: dict[str, Any]) -> dict[str, Any]:
        if message["command"]["do"] != "step":
            return {"ok": True, "result": {"snapshots": []}}
        trace = f'Traceback:\n  File "x.py", line 1\n  File "{self.file}", line 2, in f\n'
        return {"ok": False, "kind": "crash", "error": "AttributeError: no y", "trace": trace}


@pytest.mark.parametrize(("file", "refused"), [(DRIVER / "snapshot.py", True), ("/x/s.py", False)])
def test_a_rehearsal_tells_a_layout_from_a_bug_of_the_build(
    monkeypatch: pytest.MonkeyPatch, file: Path, refused: bool
) -> None:
    templates = processes.Templates()
    monkeypatch.setattr(templates, "reset", lambda config: None)
    monkeypatch.setattr(templates, "ask", Crashing(Path(file)))
    if refused:
        with pytest.raises(UsageError, match=r"^unknown layout: .* no y \(in snapshot.py\)$"):
            templates._rehearse({})
    else:
        templates._rehearse({})


@pytest.mark.parametrize(
    ("margins", "count", "certain"),
    [([9, 1, 1, 1], 3, 3), ([0, 1, 1e-6, 1], 3, 1), ([1, 0, 1], 2, 0)],
)
def test_a_replay_ends_before_the_first_tie(margins: list[float], count: int, certain: int) -> None:
    """INV-CONTENT.tokens: rounding decides a tie, and may decide differently."""
    made = replay.Replay.__new__(replay.Replay)
    made.margins = margins
    assert made._certain(count) == certain


class Replaying:
    """A replay that raises on one prompt and dies on another."""

    def __init__(self, *_: object) -> None:
        pass

    def tokens(self, prompt: list[int], count: int) -> Generator[None, None, list[int]]:
        yield
        if prompt == [6]:
            raise RuntimeError("bad page")
        if prompt[0] > 6:
            os.kill(os.getpid(), prompt[0])
        return prompt * count

    @staticmethod
    def run(script: Iterator[None]) -> None:
        for _ in script:
            pass


def test_the_death_of_a_replay_is_told_by_its_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer has the signal alone, in the form of the protocol. A malformed answer was once
    reported as garbage on the wire. After an exception the next replay is answered. After a death
    the template is built anew."""
    monkeypatch.setattr(processes, "Replay", Replaying)
    ours, _theirs = socket.socketpair()
    asking, replaying = socket.socketpair()
    engine: Any = Replaying

    def begin() -> None:
        asking.close()
        processes.replayer(Channel(replaying), engine, slides=False)

    pid = fork(begin)
    replaying.close()
    templates = processes.Templates()
    templates.channels["key"] = processes.Template(pid, Channel(ours), Channel(asking))
    templates.current, templates.busy = "key", True
    failed = {"ok": False, "kind": "crash"}
    assert templates.recompute([1], 2) == {"ok": True, "result": {"tokens": [1, 1]}}
    raised = templates.recompute([6], 2)
    assert raised.pop("trace").endswith("RuntimeError: bad page\n")
    assert raised == {**failed, "error": "replaying a turn alone: RuntimeError: bad page"}
    assert templates.recompute([2], 1)["ok"]
    died = templates.recompute([9], 2)
    text = "the replay process died (SIGKILL)"
    assert died == {**failed, "error": text, "trace": ""}
    assert (templates.channels, templates.busy) == ({}, False)


def test_how_a_process_ended() -> None:
    statuses = [9, 3 << 8, 34]
    assert [channel.how(status) for status in statuses] == ["SIGKILL", "exit status 3", "SIGRTMIN"]
    assert channel.how(35) == "signal 35"
