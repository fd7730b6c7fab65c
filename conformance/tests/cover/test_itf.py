"""Traces on disk: a written trace can be read again, and an invalid one is refused in one line."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import given, settings, strategies as st

from slotproof.lockstep.observation import Holder, Violation
from slotproof.protocol.commands import FIELDS, Command, check, describe
from slotproof.protocol.config import CONFIGS
from slotproof.reports.trace import Trace, from_itf, load_trace
from slotproof.traces import itf
from slotproof.traces.document import PoolFigures, RequestFigures, SessionFigures, SlotFigures
from slotproof.traces.frames import Frame
from slotproof.traces.record import Row

names = st.text(st.characters(codec="utf-8", exclude_characters="#"), min_size=1, max_size=5)
values: st.SearchStrategy[Any] = st.recursive(
    st.integers() | st.booleans() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
rids = st.sampled_from(["r1", "r2", "", "ü"])
counts = st.integers(0, 10**4)
tokens = st.lists(st.integers(1, 10**6), max_size=5)
_FIELD: dict[str, st.SearchStrategy[Any]] = {
    "session": st.sampled_from(["s1", "s2"]),
    "rid": rids,
    "tokens": tokens,
    "stop": tokens,
    "n": st.integers(0, 2500),  # the most rows together stay within bounds.ITERATIONS
}


@st.composite
def a_command(draw: st.DrawFn) -> Command:
    name = draw(st.sampled_from(list(FIELDS)))
    fields = {field: draw(_FIELD.get(field, counts)) for field in FIELDS[name]}
    if name == "submit":
        fields["session"] = draw(st.sampled_from(["s1", None]))
    elif name in ("evict", "accept"):
        fields["tokens"] = draw(counts)
    return {"do": name, **fields}


def table(shown: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for some figures of a type of the document, by name."""
    kinds = {int: st.integers(0, 99), str: names, bool: st.booleans()}
    hints = get_type_hints(shown)
    fields = {field: kinds[kind] for field, kind in hints.items()}
    return st.dictionaries(names, st.fixed_dictionaries({}, optional=fields), max_size=2)


pools, sessions = table(PoolFigures), table(SessionFigures)
slots, requests = table(SlotFigures), table(RequestFigures)
whole = st.integers(-(10**9), 10**9)
frames = st.builds(
    Frame,
    events=st.lists(
        st.fixed_dictionaries(
            {"transition": st.just("T-OPEN"), "params": st.dictionaries(names, whole, max_size=2)},
            optional={"session": names, "request": names},
        ),
        max_size=2,
    ),
    told=st.lists(
        st.fixed_dictionaries({"type": st.just("finish")}, optional={"tokens": counts}), max_size=2
    ),
    pools=pools,
    shares=pools,
    sessions=sessions,
    slots=slots,
    requests=requests,
    pages=st.just(
        {
            "full": [
                {"kind": "free", "pages": "1-3"},
                {"kind": "tree", "locks": 1, "pages": ""},
                {"kind": "slot", "name": "s1", "pages": "4 4"},
            ]
        }
    ),
    check=st.just({"ran": True, "verdict": "ok"}),
    differs=st.lists(st.fixed_dictionaries({"what": names}, optional={"spec": whole}), max_size=2),
)


@st.composite
def a_row(draw: st.DrawFn) -> Row:
    """Draw a row. Its figures are the figures of its last iteration."""
    shown = draw(st.lists(frames, max_size=3))
    last = shown[-1] if shown else draw(frames)
    transitions = draw(st.lists(st.sampled_from(["T-OPEN", "T-SAVE"])))
    return Row(
        draw(a_command()), transitions, last.pools, last.sessions, last.slots, last.requests, shown
    )


rows = a_row()
holders = st.builds(Holder, st.just("slot"), names) | st.just(Holder("free"))
violations = st.builds(
    Violation,
    st.just("INV-ONCE"),
    st.just("reported"),
    st.text(max_size=9),
    st.sampled_from([None, "T-SAVE"]),
    variable=st.none() | names,
    spec=st.none() | whole,
    engine=st.none() | whole,
    guard=st.none() | names,
    page=st.none() | whole,
    owners=st.lists(holders, max_size=2).map(tuple),
    session=st.none() | rids,
    rid=st.none() | rids,
    fault=st.sampled_from([None, "garbage"]),
)
traces = st.builds(
    Trace,
    engine=st.just("reference 1"),
    spec=st.just("reference"),
    profile=st.just("reference"),
    config=st.sampled_from(list(CONFIGS.values())),
    seed=st.integers(0, 2**40),
    rows=st.lists(rows, min_size=1, max_size=4),
    violations=st.lists(violations, max_size=2),
    minimal=st.booleans(),
    config_name=st.sampled_from(["", "p1"]),
)
quick = settings(max_examples=60, deadline=None, database=None, derandomize=True)


@quick
@given(values)
def test_values_survive(value: Any) -> None:
    assert itf.decode(json.loads(json.dumps(itf.encode(value)))) == value


@quick
@given(traces)
def test_traces_survive(trace: Trace) -> None:
    """Through the document, JSON and back."""
    assert from_itf(json.loads(json.dumps(itf.to_itf(trace)))) == trace


@quick
@given(traces)
def test_plain_integers_are_accepted(trace: Trace) -> None:
    """A trace edited by hand has plain small integers."""

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(item) for item in value]
        if isinstance(value, dict):
            bare = set(value) == {"#bigint"}
            return int(value["#bigint"]) if bare else {k: plain(v) for k, v in value.items()}
        return value

    assert from_itf(plain(itf.to_itf(trace))) == trace


@quick
@given(a_command())
def test_commands_that_are_drawn_are_commands(command: Command) -> None:
    assert check(command) == command
    assert "\n" not in describe(command)


STEP_TRACE = Trace(
    engine="reference 1",
    spec="reference",
    profile="reference",
    config=CONFIGS["p4"],
    seed=3,
    rows=[Row({"do": "open", "session": "s1"}), Row({"do": "step", "n": 1}, ["T-OPEN"])],
    violations=[],
    minimal=True,
    config_name="p4",
)


@pytest.fixture
def document() -> dict[str, Any]:
    return copy.deepcopy(itf.to_itf(STEP_TRACE))


def test_save_and_load(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "t.itf.json"
    itf.save(STEP_TRACE, path)
    assert load_trace(path) == STEP_TRACE
    assert [file.name for file in path.parent.iterdir()] == ["t.itf.json"], "no temporary file left"


def test_what_is_written_follows_the_format(document: dict[str, Any]) -> None:
    """ADR 015: #meta, vars and states, action labels, big integers."""
    assert document["#meta"]["format"] == "ITF"
    assert set(document["vars"]) <= document["states"][0].keys()
    assert [state["mbt::actionTaken"] for state in document["states"]] == ["open", "step"]
    assert document["states"][1]["mbt::nondetPicks"] == {"n": {"#bigint": "1"}}
    assert document["#meta"]["slotproof"]["length"] == 2


Change = Callable[[Any], object]


def _picks(**picks: Any) -> Change:
    return lambda d: d["states"][1].__setitem__("mbt::nondetPicks", picks)


def _action(name: str) -> Change:
    return lambda d: d["states"][1].__setitem__("mbt::actionTaken", name)


def _meta(**fields: Any) -> Change:
    return lambda d: d["#meta"]["slotproof"].update(fields)


def _config(**fields: Any) -> Change:
    return lambda d: d["#meta"]["slotproof"]["config"].update(fields)


def _many(state: Any) -> Any:
    return {**state, "mbt::nondetPicks": {"n": 10_000}}


BAD: dict[str, tuple[Change, str]] = {
    "no meta": (lambda d: d.pop("#meta"), "not an ITF trace"),
    "no states": (lambda d: d.pop("states"), "not an ITF trace"),
    "of another tool": (lambda d: d["#meta"].pop("slotproof"), "slotproof did not write"),
    "a later protocol": (_meta(protocol=3), "protocol 3, and slotproof reads 2"),
    "an earlier protocol": (_meta(protocol=1), "protocol 1, and slotproof reads 2"),
    "no protocol": (lambda d: d["#meta"]["slotproof"].pop("protocol"), "protocol null"),
    "unknown command": (_action("reboot"), "unknown command 'reboot'"),
    "missing field": (_action("tick"), "command 2: tick/seconds: Field required"),
    "extra field": (_picks(n=1, m=2), "command 2: step/m: Extra inputs are not permitted"),
    "negative number": (_picks(n=-1), "step/n: Input should be greater than or equal to 0, not -1"),
    "boolean number": (_picks(n=True), "step/n: Input should be a valid integer, not true"),
    "text number": (_picks(n="1"), 'step/n: Input should be a valid integer, not "1"'),
    "unknown configuration field": (_config(turbo=1), "config/turbo: Extra inputs"),
    "pool smaller than a page": (_config(total_tokens=0), "less than one page of 4 tokens"),
    "pool of part pages": (_config(total_tokens=6), "total_tokens=6 is no multiple"),
    "negative configuration": (_config(rows=-1), "config/rows: Input should be greater"),
    "text in the configuration": (_config(rows="4"), "config/rows: Input should be a valid int"),
    "a number where a switch is due": (_config(aligned_reuse=1), "aligned_reuse: Input should be"),
    "an engine of 80 GB": (_config(rows=10_000, context_len=10**6), "is more than 4000000"),
    "a pool of 10⁷ tokens": (_config(total_tokens=10**7), "is more than 1000000"),
    "seed is text": (_meta(seed="x"), 'seed: Input should be a valid integer, not "x"'),
    "a float": (_meta(seed=64.0), "seed: Input should be a valid integer, not 64.0"),
    "a figure that is a float": (
        lambda d: d["states"][1].update(pools={"#map": [["full", {"total": 64.5}]]}),
        "states/1/pools/full/total: Input should be a valid integer",
    ),
    "a map that is none": (lambda d: d["states"][1].update(pools={"#map": [[[], 1]]}), "#map"),
    "too many iterations": (
        lambda d: d.update(states=[d["states"][0], *[_many(d["states"][1])] * 2]),
        "20000 iterations are too many; at most 10000",
    ),
    "big integer is no integer": (_picks(n={"#bigint": "1e9"}), "states/1"),
    "too long": (
        lambda d: d.update(states=d["states"] * 5001),
        "10002 commands are too many; at most 10000",
    ),
    "too many iterations shown": (
        lambda d: d["states"][1].update(iterations=[{}] * 10_001),
        "10001 iterations are too many",
    ),
    "too much to store": (
        lambda d: (
            d["#meta"]["slotproof"]["config"].update(total_tokens=1_000_000),
            d["states"][1].update({"mbt::nondetPicks": {"n": 9000}}),
        ),
        "9000 iterations of 250000 pages, 4 rows",
    ),
    "too many violations": (
        lambda d: d["#meta"]["slotproof"].update(ignored=["INV-ONCE.reported"] * 1001),
        "ignored: List should have at most 1000 items",
    ),
    "states is no list": (lambda d: d.update(states={}), "states"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_trace_is_refused_in_one_line(
    name: str, document: dict[str, Any], tmp_path: Path
) -> None:
    change, text = BAD[name]
    change(document)
    path = tmp_path / "bad.itf.json"
    path.write_text(json.dumps(document))
    with pytest.raises(itf.BadTrace) as caught:
        load_trace(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and text in message and "\n" not in message


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[" * 700 + b"]" * 700, "not JSON"),
        (b'{"#meta": 1, "#meta": 2}', "not JSON: Detected duplicate key"),
        (b'{"#meta": NaN}', "not JSON"),
        (b'["\\ud800"]', "not JSON"),
        (b" " * (4 << 20) + b"[]", "the file is too long: more than 4194304 bytes"),
        (b"\xff\xfe{}", "not JSON"),
        (b"[]", "not an ITF trace"),
        (b"3", "not an ITF trace"),
        (b'{"#meta": 1, "states": []}', "not an ITF trace"),
        (b"cos\nsystem\n(S'true'\ntR.", "not JSON"),
    ],
)
def test_files_that_are_something_else(content: bytes, text: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.itf.json"
    path.write_bytes(content)
    with pytest.raises(itf.BadTrace, match=text) as caught:
        load_trace(path)
    assert "\n" not in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(itf.BadTrace, match="No such file or directory"):
        load_trace(tmp_path / "none")
    with pytest.raises(itf.BadTrace, match="Is a directory"):
        load_trace(tmp_path)


def test_what_has_no_form_in_itf() -> None:
    with pytest.raises(TypeError, match="has no form in ITF"):
        itf.encode(1.5)
