"""The identity of a build: its files, its commit, and when it counts as a release."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from slotproof.engines.base import EngineUnusable, built
from slotproof.engines.identity import fingerprint, installed
from slotproof.engines.reference import InProcessEngine
from slotproof.engines.registry import EngineSpec, is_ours
from slotproof.environments.families import FAMILIES
from slotproof.matrices.builds import parse
from slotproof.protocol.build import Build
from slotproof.reports.trace import Trace, load_trace
from slotproof.traces import itf
from tests.fingerprints import of_wheel

UNLISTED = "0.5.99"
GIVEN = Build("sglang@ENV", "sglang", UNLISTED, "")
SOURCE = "def f() -> None: ...\n"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a package as left by an installer, with its list of files."""
    folder = tmp_path / "site" / "sglang"
    (folder / "srt").mkdir(parents=True)
    rows = []
    for name in ("__init__.py", "srt/scheduler.py", "kernel.so"):
        (folder / name).write_text(SOURCE + name)
        digest = hashlib.sha256((folder / name).read_bytes()).digest()
        rows.append(f"sglang/{name},sha256={base64.urlsafe_b64encode(digest).decode()},9")
    info = folder.with_name(f"sglang-{UNLISTED}.dist-info")
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: sglang\nVersion: {UNLISTED}\n")
    (info / "RECORD").write_text("\n".join(rows).replace("=,9", ",9"))
    return folder


def info(package: Path, **origin: Any) -> None:
    """Note the origin of the installed package."""
    direct_url = package.with_name(f"sglang-{UNLISTED}.dist-info") / "direct_url.json"
    direct_url.write_text(json.dumps({"url": "https://example.org", **origin}))


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_a_package_of_the_index_is_a_release(package: Path) -> None:
    build = installed(GIVEN, package)
    assert (build.release, build.title, build.commit) == (UNLISTED, f"sglang {UNLISTED}", "")
    (package / "kernel.so").unlink()  # recipes keep some files
    (package / "srt" / "__pycache__").mkdir()
    (package / "srt" / "__pycache__" / "scheduler.pyc").touch()
    assert installed(GIVEN, package) == build


@pytest.mark.parametrize("what", ["changed", "added", "gone"])
def test_a_changed_file_makes_it_another_build(package: Path, what: str) -> None:
    path = package / "srt" / ("other.py" if what == "added" else "scheduler.py")
    path.unlink() if what == "gone" else path.write_text("changed")
    build = installed(GIVEN, package)
    assert build.release == ""
    assert build.title == f"sglang {UNLISTED}+modified (fingerprint {fingerprint(package)})"


def test_what_was_installed_from_elsewhere_is_no_release(package: Path) -> None:
    info(package, archive_info={})
    assert installed(GIVEN, package).release == ""
    info(package, vcs_info={"vcs": "git", "commit_id": "3f2c1ab"})
    assert installed(GIVEN, package).title == f"sglang {UNLISTED}+modified at 3f2c1ab"


def test_the_committed_list_knows_a_release_without_a_record(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = {UNLISTED: fingerprint(package), "0.5.98": "another"}
    monkeypatch.setattr(type(FAMILIES["sglang"]), "fingerprints", listed)
    info(package, dir_info={"editable": True})
    assert installed(GIVEN, package).release == UNLISTED
    listed[UNLISTED] = "another"  # a private index may have a wheel of that number, too
    assert installed(GIVEN, package).release == ""


def test_a_source_tree_has_a_commit(package: Path) -> None:
    site = package.parent
    git(site, "init", "-q")
    assert installed(GIVEN, package).commit == ""  # an environment in a tree of something else
    git(site, "add", ".")
    git(site, "commit", "-qm", "x")
    head = git(site, "rev-parse", "HEAD")
    assert installed(GIVEN, package).commit == head
    (package / "srt" / "scheduler.py").write_text("changed")
    assert installed(GIVEN, package).commit == f"{head}+modified"


def test_no_git_is_no_failure(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert installed(GIVEN, package).commit == ""


def test_a_label_is_its_name_and_a_number_is_no_label(tmp_path: Path, cli: Any) -> None:
    asked = ["--engine", "reference:leak-full", "--config", "p1", "--out", str(tmp_path)]
    text = cli(["run", *asked, "--label", "my branch", "--examples", "20"], 1)
    assert "violated by reference my branch, in" in text
    assert "my branch is 1 with leak-full\n" in text
    trace = load_trace(next(tmp_path.glob("*.itf.json")))
    assert trace.identity == Build(
        "reference:leak-full", "reference", "1 with leak-full", None, "my branch"
    )
    for label in ("0.5.23", "v0.5.23", "", " x", "x" * 61, "a\nb"):
        assert "--label" in cli.wrong(["run", *asked, "--label", label])


def test_a_driver_of_ones_own_is_no_release() -> None:
    engine = InProcessEngine()
    assert built(engine).title == "reference 1"
    engine.name, engine.version = "sglang", "0.5.23"
    assert built(engine).title == "sglang 0.5.23+unverified"


def test_a_trace_stores_it(a_trace: Trace) -> None:
    build = Build("sglang@/env/bin/python", "sglang", "0.5.23", "", "", "3f2c1ab", "9e29")
    a_trace.__dict__["build"] = build
    data = itf.to_itf(a_trace)
    assert itf.from_itf(data).identity == build
    assert a_trace.found_on == "sglang@/env/bin/python"
    del data["#meta"]["slotproof"]["build"]
    assert itf.from_itf(data).identity.title == "sglang 0.5.23+unverified"
    data["#meta"]["slotproof"]["spec"] = "sglang==0.5.23"
    assert itf.from_itf(data).identity.release == "0.5.23"


@pytest.fixture
def a_trace() -> Trace:
    path = Path(__file__).parents[3] / "docs/findings/sglang-0.5.18-one-token-history.itf.json"
    fields = vars(load_trace(path))
    return Trace(**{**fields, "engine": "sglang 0.5.23", "spec": "sglang"})


def test_slips_of_a_release_are_told_at_once(cli: Any) -> None:
    with pytest.raises(EngineUnusable, match=r"did you mean sglang==0\.5\.23\?$"):
        EngineSpec.parse("sglang=0.5.23").open()
    with pytest.raises(EngineUnusable, match=r"releases of vllm are supported from 0\.15\.0 on$"):
        EngineSpec.parse("vllm==0.5.0").open()
    assert parse("sglang=0.5.23", 10, Path()).spec.text == "sglang=0.5.23"
    assert "did you mean vllm==0.33.0?" in cli.wrong(["env", "create", "vllm=0.33.0"])


def test_the_reference_on_a_device_is_ours() -> None:
    assert is_ours("reference:leak-full@cuda") and not is_ours("sglang@reference")


def test_the_list_of_releases_is_of_wheels(package: Path, tmp_path: Path) -> None:
    import zipfile

    wheel = tmp_path / f"sglang-{UNLISTED}-py3-none-any.whl"
    record = f"sglang-{UNLISTED}.dist-info/RECORD"
    with zipfile.ZipFile(wheel, "w") as made:
        made.write(package.parent / record, record)
    assert of_wheel(wheel) == ("sglang", UNLISTED, fingerprint(package))
