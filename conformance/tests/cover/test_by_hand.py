"""Configurations by hand: ``--config FIELD=VALUE,…``, and ``--server-args`` with a command line."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis.strategies import booleans, integers, sampled_from

from slotproof.engines.reference import InProcessEngine
from slotproof.environments.families import FAMILIES
from slotproof.protocol import flags
from slotproof.protocol.config import CONFIGS, SERVED, BadConfig, EngineConfig
from slotproof.protocol.named import DEFAULTS, chosen, read, written
from slotproof.search.plan import Plan

SGLANG = (
    "CUDA_VISIBLE_DEVICES=0 SGLANG_REQ_WAITING_TIMEOUT=30 python -m sglang.launch_server \\\n"
    "  --model-path meta-llama/Llama-3.1-8B-Instruct --host 0.0.0.0 --port=30000 --tp 2 \\\n"
    "  --page-size 4 --context-length 64 --max-total-tokens 160 --max-running-requests 3 \\\n"
    "  --chunked-prefill-size 8 --enable-mixed-chunk --schedule-policy lpm --max-queued-requests 2"
)
SGLANG_FIELDS = (
    "page_size=4,total_tokens=160,max_running=3,rows=3,context_len=64,chunk=8,reserve=70,"
    "overlap=true,queue=2,waiting_timeout=30,mixed=true,longest_match=true"
)
EAGLE = (
    "sglang serve --model-path M --speculative-algorithm EAGLE3 --speculative-num-steps 2 "
    "--speculative-eagle-topk 4 --speculative-num-draft-tokens 8 --disable-overlap-schedule "
    "--disable-radix-cache --chunked-prefill-size -1 --enable-priority-scheduling"
)
EAGLE_FIELDS = (
    "total_tokens=288,max_running=6,rows=6,draft=2,topk=4,reserve=70,priority=true,no_tree=true"
)
VLLM = (
    "vllm serve Qwen/Qwen3-8B --max-model-len 128k --block-size 32 -tp 2 --trust-remote-code "
    "--max_num_seqs 128 --max-num-batched-tokens=8192 --gpu-memory-utilization 0.9 -O3 "
    "--no-enable-prefix-caching --api-key 'a key' -cc.mode 3 --served-model-name a b"
)
VLLM_FIELDS = (
    "page_size=16,total_tokens=288,max_running=6,rows=6,chunk=16,overlap=true,no_tree=true"
)
NGRAM = (
    "--max-model-len 64 --num-gpu-blocks-override 9 --block-size 16 --max-num-seqs 2 "
    "--max-num-batched-tokens 16 --no-async-scheduling --scheduling-policy priority "
    '--speculative-config \'{"method": "ngram", "num_speculative_tokens": 3}\''
)
NGRAM_FIELDS = (
    "page_size=16,total_tokens=128,max_running=2,rows=2,context_len=64,chunk=16,draft=3,"
    "priority=true"
)


def table(family: str) -> flags.Table:
    flags_of = FAMILIES[family].flags
    assert flags_of is not None
    return flags_of


def served(family: str, text: str) -> EngineConfig:
    reading = flags.read(table(family), text)
    assert reading.refused == []
    return flags.configuration(table(family), reading.fields)[0]


@pytest.mark.parametrize("name", [*CONFIGS, *SERVED])
def test_every_configuration_is_read_as_it_is_written(name: str) -> None:
    config = (CONFIGS | SERVED)[name]
    assert read(written(config)) == config
    assert chosen([written(config)]) == {written(config): config}


@given(sampled_from([1, 4, 16]), integers(1, 9), sampled_from(["keep", "wipe"]), booleans())
def test_numbers_choices_and_booleans_are_read_as_written(
    page: int, pages: int, retract: Any, on: bool
) -> None:
    config = EngineConfig(page, page * pages, retract=retract, overlap=on, no_tree=not on)
    assert read(written(config)) == config


def test_spaces_order_and_bare_booleans_do_not_matter() -> None:
    name = "page_size=4,chunk=8,overlap=true"
    texts = ["overlap, chunk = 8,page_size=4", name, "overlap"]
    assert list(chosen(texts)) == [name, "overlap=true"]


WRONG = [
    ("colour=3", "there is no field 'colour'; the fields are: page_size, "),
    ("chunks=8,page_size=4", "there is no field 'chunks'; did you mean chunk?"),
    ("overlapp", "unknown configuration 'overlapp'; did you mean overlap?"),
    ("chunk=x", 'chunk: Input should be a valid integer, not "x"'),
    ("chunk", "chunk: Input should be a valid integer, not true"),
    ("overlap=1", "overlap: Input should be a valid boolean, not 1"),
    ("retract=drop", "retract: Input should be 'keep' or 'wipe'"),
    ("chunk=8,chunk=8", "chunk is given twice"),
    ("page_size=4,total_tokens=66", "total_tokens=66 is no multiple of page_size=4"),
    ("window=4", "window and swa_tokens come together"),
    ("total_tokens=9000000", "total_tokens=9000000 is more than 1000000"),
    (",", "there is no field ''"),
    ("priority", "priority=true: priority is not offered; the engine offers page sizes 1, 2, 4, "),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_wrong_fields_are_a_usage_error_in_one_line(text: str, message: str, cli: Any) -> None:
    assert message in cli.wrong(["run", "--config", text, "--examples", "1"])


def test_fields_that_one_of_two_engines_refuses_are_refused() -> None:
    able = InProcessEngine().capabilities
    plan = Plan.named(["chunk=8,page_size=16"])
    assert plan.of(able) == plan
    with pytest.raises(BadConfig, match="page size 16 is not offered; the engine offers page size"):
        plan.of(able, replace(able, page_sizes=(1, 4)))


def test_a_finding_under_fields_is_stored_shown_and_replayed(tmp_path: Path, cli: Any) -> None:
    name, bug = "page_size=4,chunk=8", "reference:22213-double-count"
    run = ["run", "--engine", bug, "--config", "chunk=8,page_size=4", "--out", tmp_path]
    code, summary = cli.ran(*run, "--all", "--examples", 20)
    assert (code, summary["configurations"]) == (1, [name])
    (trace,) = tmp_path.glob("*.itf.json")
    assert f"configuration {name}" in cli(["show", str(trace)])
    assert f"configuration {name}" in cli(["replay", str(trace)], 1)
    (journal,) = tmp_path.glob("*.jsonl")
    report = cli(["report", str(journal), "--out", str(tmp_path / "report")], 1)
    assert f"of configuration {name}" in report


LINES = [
    ("sglang", SGLANG, SGLANG_FIELDS),
    ("sglang", EAGLE, EAGLE_FIELDS),
    ("vllm", VLLM, VLLM_FIELDS),
    ("vllm", NGRAM, NGRAM_FIELDS),
]


@pytest.mark.parametrize(("family", "text", "fields"), LINES)
def test_command_lines_of_servers_become_fields(family: str, text: str, fields: str) -> None:
    assert served(family, text) == read(fields)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--page-sise 4", "--page-sise: unknown flag; did you mean --page-size?"),
        ("--xyz", "--xyz: unknown flag; leave it out"),
        ("--page-size=big", "--page-size big: the driver has no such value"),
        ("--enable-lora --pp-size 2", "adapters; --pp-size 2: the driver has no pipeline"),
        ("--schedule-policy dfs-weight", "the driver runs fcfs and lpm"),
        ("--speculative-num-steps 3", "it needs --speculative-algorithm"),
        ("page-size 4", "'page-size' is no flag"),
        ("sglang serve MODEL 4", "'4' is no flag"),
        ("--port '3", "is no command line: No closing quotation"),
        ("--max-running-requests 0", "max_running: Input should be greater than or equal to 1"),
    ],
)
def test_refused_and_unknown_flags_are_named(text: str, message: str, cli: Any) -> None:
    argv = ["run", "--engine", "sglang==0.5.23", "--server-args", text]
    assert message in cli.wrong(argv)


def test_a_family_without_flags_and_a_json_value_that_is_none_are_refused(cli: Any) -> None:
    for engine in ("reference", "cmd:vllm serve"):
        argv = ["run", "--engine", engine, "--server-args", "--port 1"]
        assert "--server-args needs a build of sglang or vllm" in cli.wrong(argv)
    argv = ["run", "--engine", "vllm==0.33.0", "--server-args", "--speculative-config 3"]
    assert "--speculative-config 3: the value must be a JSON object" in cli.wrong(argv)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_line_of_a_table_has_one_meaning(family: str) -> None:
    """A flag is in one table only, maps to fields that exist, and needs flags that exist."""
    it = table(family)
    listed = [*it.flags, *it.aliases, *sum([*it.refused.values(), *it.ignored.values()], ())]
    assert sorted(listed) == sorted(set(listed))
    made = [flag.fields for flag in it.flags.values()]
    made += [tuple(fields) for flag in it.flags.values() for fields in flag.values.values()]
    assert {name for names in [*made, tuple(it.server)] for name in names} <= {*DEFAULTS, "pages"}
    assert {flag.needs for flag in it.flags.values()} - {""} <= it.flags.keys()


def test_a_report_has_a_line_for_each_flag_and_for_each_scaled_size() -> None:
    reading = flags.read(table("sglang"), "--page-size 64 --port 1 --context-length 4k")
    config, lines = flags.configuration(table("sglang"), reading.fields)
    said = "\n".join([*reading.lines, *lines])
    for line in (
        "maps            --page-size 64: page_size=64\n",
        "ignores         --port 1: the network, logs and metrics\n",
        "assumes         total_tokens=1048576, max_running=256, ",
        "context_len 4000 to 48",
        f"config          --config {written(config)}",
    ):
        assert line in said
    assert asdict(config) == asdict(read(written(config)))
