"""Environments made by the real uv from local wheels, and one line for every failure."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import namedtuple
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from slotproof.cli.app import status
from slotproof.engines import releases
from slotproof.engines.base import EngineUnusable
from slotproof.engines.registry import EngineSpec
from slotproof.environments import uv
from slotproof.environments.families import FAMILIES, EnvironmentProblem
from slotproof.environments.making import environment
from slotproof.environments.store import MARKER, WORK, Entry, Store, default_folder
from slotproof.environments.uv import clean_environment
from slotproof.protocol.family import Family
from tests.processes import finished
from tests.quality.environments import HERE, TINY, wheel, wheels

RUN, STARTS = uv.run, releases.starts
SOURCES = {"find-links": "", "no-index": "1"}


def fine(python: Path, family: Family) -> str:
    assert python.exists()
    return ""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Set up the family tiny, with pip configured for a folder of wheels and no network."""
    folder = tmp_path / "wheels"
    wheels(folder)
    monkeypatch.setattr(uv, "pip_configuration", lambda: SOURCES | {"find-links": str(folder)})
    monkeypatch.setitem(FAMILIES, "tiny", TINY)
    monkeypatch.setenv("SLOTPROOF_ENVS", str(tmp_path / "envs"))
    monkeypatch.setattr("slotproof.cli.env.starts", fine)
    monkeypatch.setattr(releases, "starts", fine)
    return Store(tmp_path / "envs")


def make(store: Store, release: str = "1.0.0", **options: Any) -> Entry:
    return environment(f"tiny=={release}", store, options.pop("check", fine), **options)


def problem(store: Store, release: str = "1.0.0", **options: Any) -> str:
    """Return the error's one line, and check that nothing of the failed environment is left."""
    before = set(store.folder.glob("*"))
    with pytest.raises(EnvironmentProblem) as caught:
        make(store, release, **options)
    assert "\n" not in str(caught.value)
    assert {path.name for path in set(store.folder.glob("*")) - before} <= {".lock"}
    return str(caught.value)


def shared(store: Store) -> list[str]:
    return [entry.name for entry in store.entries() if not entry.release]


def with_recipe(monkeypatch: pytest.MonkeyPatch, name: str = "tiny", **changes: Any) -> None:
    """Give the family another recipe."""
    family = replace(TINY, name=name, recipe=replace(TINY.recipe, **changes))
    monkeypatch.setitem(FAMILIES, name, family)


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command lines of uv."""
    seen: list[str] = []

    def recorded(*arguments: str, **options: Any) -> uv.Done:
        seen.append(" ".join(arguments))
        return RUN(*arguments, **options)

    monkeypatch.setattr(uv, "run", recorded)
    return seen


def failing(word: str, stderr: str) -> Callable[..., uv.Done]:
    """Return a uv that fails on command lines with the word."""

    def run(*arguments: str, **options: Any) -> uv.Done:
        if word in arguments:
            return CompletedProcess(arguments, 2, b"", stderr.encode())
        return RUN(*arguments, **options)

    return run


# Making ---------------------------------------------------------------------------


def test_releases_share_their_packages_and_are_made_once(store: Store, commands: list[str]) -> None:
    first, second = make(store), make(store, "1.1.0")
    assert first.path.name == "tiny-1.0.0"
    assert shared(store) == [first.shared] == [second.shared]
    code = "import tiny, torch; print(tiny.release, tiny.__file__, torch.__file__)"
    release, tiny, torch = finished(
        [first.python, "-c", code], env=clean_environment()
    ).stdout.split()
    assert release == "1.0.0" and Path(tiny).is_relative_to(first.path)
    assert Path(torch).is_relative_to(store.folder / first.shared)
    assert sum("torch==2" in line for line in commands) == 2, "planned and installed once"
    assert {path.name for path in store.folder.glob(".*")} == {".lock"}, "no cache stays"
    commands.clear()
    assert make(store) == make(store, "1.0") == first and commands == []


def test_engines_of_the_same_requirements_share_them(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The unwanted files of a wheel are removed before the environment's first start."""

    def thin(python: Path, family: Family) -> str:
        (module,) = python.parents[1].glob(f"lib/python*/site-packages/{family.name}")
        assert [path.name for path in module.iterdir()] == ["__init__.py"]
        return ""

    first = make(store)
    wheel(store.folder.parent / "wheels", "small", "2.0.0")
    with_recipe(monkeypatch, "small", keeps=(".py", ".json"))
    second = environment("small==2.0.0", store, thin)
    assert (second.name, second.shared) == ("small==2.0.0", first.shared)


@pytest.mark.parametrize("needs", ["nvidia-nccl-cu13", "cuda-toolkit", "triton"])
def test_without_the_index_of_cpu_builds_a_cpu_build_of_the_usual_one_will_do(
    store: Store, needs: str, commands: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build for GPUs is refused before it is fetched."""
    monkeypatch.setattr(uv, "run", failing("--torch-backend", "error: error sending request"))
    make(store)
    folder = store.folder.parent / "wheels"
    wheel(folder, "torch", "2", needs=needs)
    wheel(folder, needs, "1.0.0")
    assert f"has torch only for GPUs (it needs {needs})" in problem(store, again=True)
    commands.clear()
    monkeypatch.setattr(uv, "run", RUN)
    assert make(store).release == "1.0.0"


@pytest.mark.parametrize(
    ("release", "near"), [("1.0.5", "1.0.0 or tiny==1.1.0"), ("0.9.0", "1.0.0"), ("7.0.0", "1.1.0")]
)
def test_a_release_that_does_not_exist_is_told_before_the_packages_are_fetched(
    store: Store, commands: list[str], release: str, near: str
) -> None:
    text = problem(store, release)
    assert text.startswith(f"there is no tiny=={release} in the package index for this Python and ")
    assert text.endswith(f"; try tiny=={near}") and not any("torch" in line for line in commands)


@pytest.mark.parametrize(
    ("word", "text", "says"),
    [
        ("tiny==1.0.0", "", "tiny: uv ended with status 2: no reason given"),
        ("torch==2", "error: x\n  cause: No space left on device", "no space left on the device"),
        ("venv", "error: a\n  cause: b", "tiny: uv ended with status 2: b"),
    ],
)
def test_what_uv_says_in_one_line(
    store: Store, word: str, text: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uv, "run", failing(word, text))
    assert says in problem(store)
    monkeypatch.setattr(uv, "run", RUN)
    assert make(store).release == "1.0.0"


def test_what_is_not_there_in_one_line(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with_recipe(monkeypatch, requirements=("torch==3",))
    assert "there is no version of torch==3 and you require torch==3" in problem(store)
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    nowhere = {"index-url": "http://127.0.0.1:1/simple", "cert": "/etc/hostname"}
    monkeypatch.setattr(uv, "pip_configuration", lambda: nowhere)
    assert "the package index can't be reached (Connection refused" in problem(store)
    monkeypatch.setattr("uv.find_uv_bin", lambda: "/no/uv")
    assert "uv does not start: [Errno 2] No such file" in problem(store)


def test_what_pip_is_configured_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = tmp_path / "pip.conf"
    text = "[global]\nindex-url = https://a/\nextra-index-url =\n  https://b/\n  https://c/\n"
    config.write_text(text + "[install]\nindex-url = https://d/\n")
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    monkeypatch.setenv("PIP_FIND_LINKS", "/e /f")
    monkeypatch.setenv("PIP_NO_INDEX", "yes")
    uv.pip_configuration.cache_clear()
    line = " ".join(uv.install("x"))
    uv.pip_configuration.cache_clear()
    assert "--default-index https://d/ --index https://b/ --index https://c/ " in line
    assert " --find-links /e --find-links /f " in line and " --no-index " in line


def test_no_space_is_told_before_anything_is_fetched(
    store: Store, commands: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage(10**9, 10**9, 10**6))
    text = problem(store)
    assert "about 3 MB are needed in " in text and text.endswith(", but 1 MB are free")
    assert not any("install" in line for line in commands)


def test_a_wrong_python(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for program in ("/no/python", "/bin/true"):
        text = problem(store, python=Path(program))
        assert f"needs Python {HERE}; no Python is {program} (" in text
    with_recipe(monkeypatch, pythons=("3.1", "3.2"))
    assert f"{sys.executable} is Python {HERE}" in problem(store, python=Path(sys.executable))
    text = problem(store)
    assert (
        "needs Python 3.1 or 3.2; no Python is >=3.1,<=3.2.99" in text and "--python PATH" in text
    )


def test_a_build_that_does_not_start(store: Store) -> None:
    make(store)
    text = problem(store, "1.1.0", check=lambda python, family: "ImportError: nope")
    assert text == "tiny==1.1.0 does not start here: ImportError: nope"


def test_the_driver_is_what_is_started(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert make(store, check=STARTS).release == "1.0.0"
    monkeypatch.setitem(FAMILIES, "tiny", replace(TINY, driver=tmp_path / "none.py"))
    text = problem(store, "1.1.0", check=STARTS)
    assert "tiny==1.1.0 does not start here: the driver does not start" in text
    (tmp_path / "none.py").write_text("import tiny")
    wheel(tmp_path / "wheels", "torch", "2", "raise ImportError('libgomp')")
    assert "ImportError: libgomp" in problem(store, "1.1.0", check=STARTS, again=True)


# Entries ---------------------------------------------------------------------------


def test_a_folder_that_is_not_ours_is_never_touched(store: Store) -> None:
    thesis = store.folder / "tiny-1.0.0" / "thesis.txt"
    thesis.parent.mkdir(parents=True)
    thesis.write_text("years of work")
    fields = dict.fromkeys(("engine", "release", "python_version", "shared", "made"), "1")
    numbered = json.dumps({"format": 1, **fields, "made": 5})
    odd = json.dumps({"format": 1, **fields, "release": "1.²"})
    for text in ("", "[]", "{}", '{"format": 1, "engine": "x"}', numbered, odd):
        (thesis.parent / MARKER).write_text(text)
        assert store.entries() == []
    with pytest.raises(EnvironmentProblem, match=r"tiny-1\.0\.0 is in the way: slotproof did not"):
        make(store)
    assert thesis.read_text() == "years of work"


def test_releases_are_in_their_order_and_odd_numbers_are_none(store: Store) -> None:
    """Digits of other scripts are no digits."""
    for release in ("1.10", "1.9", "1.²", "1.٣"):
        fields = {"engine": "tiny", "release": release, "python_version": HERE, "shared": "x"}
        (store.folder / release).mkdir(parents=True)
        (store.folder / release / MARKER).write_text(json.dumps({"format": 1, **fields}))
    assert [entry.name for entry in store.entries()] == ["tiny==1.9", "tiny==1.10"]
    assert status(["env", "list"]) == 0


def test_what_a_kill_left_goes_and_what_a_link_leads_to_stays(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thesis = tmp_path / "mine" / "thesis.txt"
    thesis.parent.mkdir()
    thesis.write_text("years of work")
    entry = make(store)
    (entry.path / "link").symlink_to(thesis.parent)
    left = store.folder / WORK / "tiny-1.0.0"
    shutil.copytree(entry.path, left, symlinks=True)
    with monkeypatch.context() as patched:  # the removal is cut short
        patched.setattr(shutil, "rmtree", lambda *_, **__: None)
        with store.changing():
            store.remove(entry)
    assert store.find("tiny==1.0.0") is None and len(list((store.folder / WORK).iterdir())) == 2
    elsewhere = make(store).path.rename(tmp_path / "elsewhere")
    assert not left.exists()
    (store.folder / "tiny-1.0.0").symlink_to(elsewhere)
    assert status(["env", "remove", "tiny==1.0.0"]) == 0
    assert elsewhere.is_dir() and thesis.read_text() == "years of work"
    assert {path.name for path in store.folder.iterdir()} == {".lock"}


def test_a_folder_that_can_not_be_written(store: Store) -> None:
    store.folder.write_text("a file")
    with pytest.raises(EnvironmentProblem, match="environments can't be stored in "):
        make(store)


@pytest.mark.skipif(sys.platform != "linux", reason="a folder that exists and takes no file")
def test_a_folder_that_takes_no_file_is_no_wait(monkeypatch: pytest.MonkeyPatch, cli: Any) -> None:
    monkeypatch.setenv("SLOTPROOF_ENVS", "/proc/self")
    assert "environments can't be stored in /proc/self: " in cli.wrong(
        ["env", "create", "sglang==0.5.23"]
    )


def test_a_release_that_does_not_exist_is_one_line(store: Store, cli: Any) -> None:
    del store
    assert "there is no tiny==7" in cli.wrong(["env", "create", "tiny==7"])


@pytest.mark.parametrize("what", ["python", "package", "shared"])
def test_a_damaged_environment_is_told_and_made_again_on_demand(
    store: Store, what: str, cli: Any
) -> None:
    entry = make(store)
    places = {"python": entry.python, "package": entry.site / "tiny"}
    places.get(what, store.folder / entry.shared).rename(entry.path / "aside")
    err = cli.wrong(["run", "--engine", "tiny==1.0.0"])
    assert "the environment of tiny==1.0.0 is damaged (" in err
    assert "`slotproof env create tiny==1.0.0` makes it again" in err
    assert "damaged: " in cli(["env", "list"])
    assert status(["env", "create", "tiny==1.0.0"]) == 0
    assert releases.of_release("tiny==1.0.0").name == "tiny==1.0.0"


def test_again_makes_what_is_shared_too(store: Store) -> None:
    entry = make(store)
    numbers = [path.stat().st_ino for path in (entry.path, store.folder / entry.shared)]
    assert status(["env", "create", "tiny==1.0.0", "--again"]) == 0
    paths = (entry.path, store.folder / entry.shared)
    assert not {path.stat().st_ino for path in paths} & set(numbers)


def test_other_requirements_are_another_folder_and_the_old_one_goes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = make(store).shared
    make(store, "1.1.0")
    with_recipe(monkeypatch, requirements=("torch==2", "torch"))
    new = make(store).shared
    assert set(shared(store)) == {old, new}, "1.1.0 still uses the old one"
    make(store, "1.1.0")
    assert shared(store) == [new]


def test_an_environment_of_another_python_is_made_again(store: Store) -> None:
    entry = make(store)
    path = entry.path / MARKER
    path.write_text(
        path.read_text().replace(f'"python_version": "{HERE}"', '"python_version": "3.1"')
    )
    assert make(store, python=Path(sys.executable)).python_version == HERE


@pytest.mark.parametrize("as_json", [False, True])
def test_an_interrupt_has_the_status_of_an_interrupt(
    store: Store, as_json: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 3 as documented, not typer's 130. Nothing is left, nothing locked."""

    def interrupted(python: Path, family: Family) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("slotproof.cli.env.starts", interrupted)
        assert status(["env", "create", "tiny==1.0.0", *["--json"] * as_json]) == 3
    assert [entry for entry in store.entries() if entry.release] == []
    assert {path.name for path in store.folder.glob(".*")} == {".lock"}
    assert status(["env", "create", "tiny==1.0.0"]) == 0


# The command line --------------------------------------------------------------------


def test_create_list_remove(store: Store, cli: Any, capfd: pytest.CaptureFixture[str]) -> None:
    folder = store.folder
    assert cli(["env", "list"]) == f"no environments in {folder}\n"
    assert status(["env", "create", "tiny==1.1.0"]) == 0
    out, err = capfd.readouterr()
    assert out.startswith("tiny==1.1.0  0 MB  ") and "/tiny-1.1.0  (" in out
    said = f"making the environment of tiny==1.1.0 in {folder}. Later runs reuse it"
    assert err == f"slotproof: {said}\n"
    made = cli.json(["env", "create", "tiny==1.0.0", "--json"])
    assert (made["name"], made["release"]) == ("tiny==1.0.0", "1.0.0") and made["seconds"] >= 0
    assert status(["env", "create", "tiny==1.0.0"]) == 0
    assert capfd.readouterr().err == "", "it was there"
    lines = cli(["env", "list"]).splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["tiny==1.0.0", "tiny==1.1.0"]
    assert all(" MB  made 20" in line and str(folder) in line for line in lines)
    assert lines[2].startswith("shared-") and len(lines) == 3
    listed = cli.json(["env", "list", "--json"])
    assert listed["folder"] == str(folder)
    wanted = {"name", "engine", "release", "megabytes", "path", "python", "made", "shared", "state"}
    assert all(wanted <= set(row) for row in listed["environments"])
    assert listed["environments"][0]["shared"] == listed["environments"][2]["name"]
    changed = next((folder / "tiny-1.1.0").rglob("tiny/__init__.py"))
    changed.write_text("changed = True\n")
    same, other, _ = cli(["env", "list"]).splitlines()
    assert "MB  made 20" in same
    assert "MB  damaged: it is tiny 1.1.0+modified (fingerprint " in other
    assert cli(["env", "remove", "tiny==1.0"]) == "removed tiny==1.0.0\n"
    assert not (folder / "tiny-1.0.0").exists() and len(store.entries()) == 2
    assert status(["env", "remove", "tiny==1.1.0"]) == 0
    assert {path.name for path in folder.iterdir()} == {".lock"}, "the last one takes its packages"
    make(store)
    assert len(cli.json(["env", "remove", "--all", "--json"])["removed"]) == 2
    assert {path.name for path in folder.iterdir()} == {".lock"}


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (
            ["env", "create", "toy==1.0"],
            f"there is no recipe for 'toy'; recipes exist for: {', '.join(FAMILIES)}",
        ),
        (["env", "create", "sglang"], "'sglang' names no release"),
        (["env", "create", "sglang=="], "'sglang==' names no release"),
        (["env", "create", "sglang==../x"], "'../x' is no release number"),
        (["env", "create", "sglang==٠.٥.١"], "'٠.٥.١' is no release number"),
        (["env", "create", "sglang==0.5.*"], "'0.5.*' is no release number"),
        (["env", "remove"], "name the environments to remove, or give --all"),
        (["env", "remove", "x", "--all"], "name the environments to remove, or give --all"),
        (["env", "remove", "sglang==0.5.1"], "there is no environment 'sglang==0.5.1' in "),
        (["run", "--engine", "toy==1.0"], "unknown engine 'toy==1.0'"),
        (["run", "--engine", "reference==1"], "unknown engine 'reference==1'"),
        (["run", "--engine", "sglang=="], "'sglang==' names no release"),
        (["run", "--engine", "sglang==new"], "'new' is no release number"),
        (["run", "--engine", "sglang==0.5.1@x"], "has its own environment"),
        (["run", "--engine", "reference@x"], "device 'x' can't be used"),
        (["run", "--engine", "cmd:x@x"], "can't start x@x"),
    ],
)
def test_wrong_names_are_one_line(
    argv: list[str], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Any
) -> None:
    monkeypatch.setenv("SLOTPROOF_ENVS", str(tmp_path))
    assert text in cli.wrong(argv)
    assert list(tmp_path.iterdir()) in ([], [tmp_path / ".lock"])


def test_an_engine_runs_in_its_environment(store: Store) -> None:
    """The environment is made at the first use. Every command with --engine finds it."""
    engine = EngineSpec("tiny==1.0.0").open()
    engine.close()
    python = store.folder / "tiny-1.0.0" / "bin" / "python"
    assert engine.name == "toy" and python.exists()
    python.unlink()
    python.symlink_to("/bin/true")
    with pytest.raises(EngineUnusable, match=r"slotproof env create --again tiny==1\.0\.0"):
        EngineSpec("tiny==1.0.0").open()


def test_a_folder_called_sglang_is_no_build(workdir: Path) -> None:
    """A clone of the engine lies in the current folder, without an installed module."""
    (workdir / "sglang").mkdir()
    with pytest.raises(EngineUnusable, match=r"has no sglang.*a release: sglang==0.5.23"):
        EngineSpec("sglang", Path(sys.executable)).open()


def test_where_they_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SLOTPROOF_ENVS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "slotproof" / "envs"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_folder() == tmp_path / ".cache" / "slotproof" / "envs"
    monkeypatch.setenv("SLOTPROOF_ENVS", "here")
    assert default_folder() == Path("here").absolute()


def test_the_recipe_of_sglang_pins_everything() -> None:
    """The environment is the same for everybody."""
    recipe = FAMILIES["sglang"].recipe
    assert any(line.startswith("torch==") for line in recipe.requirements)
    assert all("==" in line for line in recipe.requirements)
    assert not [line for line in recipe.requirements if line.startswith(("nvidia", "triton"))]
