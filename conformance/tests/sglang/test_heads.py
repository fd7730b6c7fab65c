"""A head of SGLang is called by its own name in every output."""

from pathlib import Path

import pytest

from tests.heads import changed, is_never_called_the_release, release

pytestmark = [pytest.mark.sglang, pytest.mark.slow]


@pytest.mark.parametrize("build", ["sglang==0.5.23"])
def test_a_head_is_never_called_the_release(
    build: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = "sglang/srt/session/streaming_session.py"
    kept = "min(target, slot.kv.kv_allocated_len)"  # Stores one token less than the turn has.
    head = changed(release(build), tmp_path, file, kept, f"{kept} - 1")
    is_never_called_the_release(head, tmp_path, capsys, monkeypatch, seed=3)
