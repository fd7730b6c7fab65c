"""A head of vLLM is called by its own name in every output."""

from pathlib import Path

import pytest

from tests.heads import changed, is_never_called_the_release, release

pytestmark = [pytest.mark.vllm, pytest.mark.slow]


@pytest.mark.parametrize("build", ["0.33.0"])
def test_a_head_is_never_called_the_release(
    build: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = "vllm/v1/core/sched/scheduler.py"
    kept = "request.num_computed_tokens = safe_frontier\n"  # one token less than the turn has
    head = changed(release(f"vllm=={build}"), tmp_path, file, kept, kept.replace("\n", " - 1\n"))
    is_never_called_the_release(head, tmp_path, capsys, monkeypatch)
