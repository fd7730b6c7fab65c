"""Environments: what is run to make one, and one line for whatever goes wrong. pip is a fake."""

from __future__ import annotations

import json
import shutil
import sys
from collections import namedtuple
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slotproof.cli.app import status
from slotproof.engines import releases
from slotproof.engines.base import EngineUnusable
from slotproof.engines.registry import EngineSpec
from slotproof.environments import use
from slotproof.environments.families import FAMILIES, EnvironmentProblem
from slotproof.environments.making import Maker
from slotproof.environments.processes import Done, Tell
from slotproof.environments.store import MARKER, Entry, Store, default_folder
from slotproof.protocol.family import Family, Recipe

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
TINY = Family(
    name="tiny",
    recipe=Recipe(
        base="tiny",
        requirements=("torch==2", "numpy==1"),
        from_cpu_index="torch",
        cpu_index="https://cpu.invalid/simple",
        pythons=("3.1", HERE),
        base_mb=2,
        release_mb=1,
    ),
    driver=Path(__file__).parent / "drivers" / "toy.py",
)


def with_recipe(**changes: Any) -> Family:
    """The family with another recipe."""
    return replace(TINY, recipe=replace(TINY.recipe, **changes))


NO_NETWORK = (
    "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError("
    "'<HTTPSConnection>: Failed to establish a new connection: [Errno -2] Name or service not "
    "known')': /simple/x/\nERROR: Could not find a version that satisfies the requirement x "
    "(from versions: none)\n"
)
RELEASES = "0.8, 0.9, 1.0, 1.1, 1.2.post1, 1.3, 1.4, 1.5"

NEAR = "no tiny 1.2 (for this Python and machine); near it: 0.9, 1.0, 1.1, 1.2.post1, 1.3, 1.4"


def missing(what: str, there: str) -> str:
    return (
        f"ERROR: Could not find a version that satisfies the requirement {what} (from versions: "
        f"{there})\nERROR: No matching distribution found for {what}"
    )


class FakePip:
    """Does what venv and pip do to folders; ``fails`` maps a word of a command line to a text."""

    def __init__(self) -> None:
        self.commands: list[str] = []
        self.fails: dict[str, str] = {}
        self.needs: list[str] = []
        self.gpu = "-"

    def __call__(self, argv: Sequence[str], keep_open: Sequence[int], tell: Tell) -> Done:
        line = " ".join(argv)
        self.commands.append(line)
        tell("Collecting")
        for word, text in self.fails.items():
            if word in line:
                return Done(1, text)
        if "sys.version_info" in line:
            return Done(0, f"{HERE}\n")
        if "version.cuda" in line:
            return Done(0, f"{self.gpu}\n")
        if "venv" in argv:
            path = Path(argv[-1])
            (path / "bin").mkdir()
            (path / "bin" / "python").symlink_to(sys.executable)
            site = path / "lib" / f"python{HERE}" / "site-packages"
            (site if "--without-pip" in argv else site / "pip").mkdir(parents=True)
        if "--report" in argv:
            report = {"install": [{"metadata": {"requires_dist": self.needs}}]}
            Path(argv[argv.index("--report") + 1]).write_text(json.dumps(report))
        if "--python" in argv:
            path = Path(argv[argv.index("--python") + 1]).parents[1]
            (path / "lib" / f"python{HERE}" / "site-packages" / "tiny").mkdir()
        return Done(0, "")

    def count(self, word: str) -> int:
        return sum(word in line for line in self.commands)


def fine(python: Path, family: Family) -> str:
    assert python.exists() and family.name == "tiny"
    return ""


@pytest.fixture
def pip() -> FakePip:
    return FakePip()


@pytest.fixture
def maker(pip: FakePip, tmp_path: Path) -> Maker:
    return Maker(TINY, Store(tmp_path / "envs"), fine, lambda _: None, pip)


@pytest.fixture
def cli(maker: Maker, pip: FakePip, monkeypatch: pytest.MonkeyPatch) -> Maker:
    """The same, as the command line makes it."""
    monkeypatch.setitem(FAMILIES, "tiny", TINY)
    monkeypatch.setenv("SLOTPROOF_ENVS", str(maker.store.folder))
    make = lambda family, store, check, tell: Maker(family, store, fine, tell, pip)  # noqa: E731
    monkeypatch.setattr(use, "Maker", make)
    return maker


def problem(maker: Maker, release: str = "1.2", python: Path | None = None) -> str:
    """The one line; nothing is left of what failed, and the next try is free to succeed."""
    with pytest.raises(EnvironmentProblem) as caught:
        maker.ensure(release, python)
    text = str(caught.value)
    assert "\n" not in text
    assert all(entry.ready and not entry.release for entry in maker.store.entries())
    return text


# Making ---------------------------------------------------------------------------


def test_releases_share_a_base_and_are_made_once(maker: Maker, pip: FakePip) -> None:
    first = maker.ensure("1.0")
    assert first.ready and first.path.name == "tiny-1.0" and first.python.exists()
    (base,) = [entry for entry in maker.store.entries() if not entry.release]
    assert (first.site / "slotproof-base.pth").read_text() == f"{base.site}\n"
    before = len(pip.commands)
    second = maker.ensure("1.1")
    assert second.base == first.base == base.path.name
    assert len(pip.commands) == before + 2, "a venv and one wheel"
    assert "--no-deps" in pip.commands[-1] and "tiny==1.1" in pip.commands[-1]
    before = len(pip.commands)
    assert maker.ensure("1.0") == first and len(pip.commands) == before


def test_engines_of_the_same_requirements_share_a_base(maker: Maker, pip: FakePip) -> None:
    """And of a wheel of which only some files are wanted the others go, before it is started."""
    first = maker.ensure("1.0")
    seen: list[set[str]] = []

    def started(python: Path, family: Family) -> str:
        (module,) = (python.parents[1] / "lib").glob(f"python*/site-packages/{family.name}")
        seen.append({path.name for path in module.rglob("*")})
        return ""

    def installs(argv: Sequence[str], keep_open: Sequence[int], tell: Tell) -> Done:
        done = pip(argv, keep_open, tell)
        if "--python" in argv:
            site = Path(argv[argv.index("--python") + 1]).parents[1] / "lib" / f"python{HERE}"
            (site / "site-packages" / "tiny").rename(site / "site-packages" / "small")
            for name in ("run.py", "run.json", "kernels.so"):
                (site / "site-packages" / "small" / name).write_text("")
        return done

    small = replace(with_recipe(keeps=(".py", ".json")), name="small")
    second = Maker(small, maker.store, started, maker.tell, installs).ensure("2.0")
    assert (second.name, second.base) == ("small==2.0", first.base)
    assert seen == [{"run.py", "run.json"}]
    assert sum(not entry.release for entry in maker.store.entries()) == 1


def test_torch_comes_from_the_index_of_cpu_builds(maker: Maker, pip: FakePip) -> None:
    maker.ensure("1.0")
    (torch,) = [line for line in pip.commands if "--index-url" in line]
    assert TINY.recipe.cpu_index in torch and torch.endswith("torch==2") and "--no-deps" in torch
    (rest,) = [line for line in pip.commands if "numpy" in line]
    assert rest.endswith("torch==2 numpy==1"), "what torch needs itself comes with the rest"


def test_without_that_index_a_cpu_build_of_the_usual_one_will_do(
    maker: Maker, pip: FakePip
) -> None:
    pip.fails = {TINY.recipe.cpu_index: NO_NETWORK}
    pip.needs = ["filelock", "numpy>1; extra == 'fast'"]
    assert maker.ensure("1.0").ready


@pytest.mark.parametrize("needs", ["nvidia-nccl-cu13==2.29", "cuda-toolkit[cudart]==13", "triton"])
def test_a_gpu_build_is_refused_before_it_is_fetched(
    maker: Maker, pip: FakePip, needs: str
) -> None:
    pip.fails = {TINY.recipe.cpu_index: NO_NETWORK}
    pip.needs = ["filelock", needs]
    assert "has torch==2 for GPUs (needs " in problem(maker)
    assert pip.commands[-1].count("--dry-run") == 1


def test_a_gpu_build_that_was_installed_all_the_same(maker: Maker, pip: FakePip) -> None:
    pip.gpu = "13.0"
    assert "for GPUs (it is for 13.0)" in problem(maker)
    pip.gpu = "- nvidia-nccl-cu13"
    assert "for GPUs (nvidia-nccl-cu13)" in problem(maker)
    pip.fails = {"version.cuda": "Traceback (most recent call last):\n  x\nImportError: libgomp"}
    assert problem(maker) == "torch==2 does not start: ImportError: libgomp"


@pytest.mark.parametrize(
    ("word", "text", "says"),
    [
        ("tiny==1.2", missing("tiny==1.2", RELEASES), NEAR),
        ("tiny==1.2", NO_NETWORK, "index can't be reached (Name or service not known)"),
        ("numpy", NO_NETWORK, "index can't be reached"),
        ("numpy", "OSError: [Errno 28] No space left on device", "no space left on the device"),
        ("numpy", "ERROR: (from versions: none)", "pip ended with status 1: ERROR: (from"),
        ("numpy", missing("numpy==1", "none"), "has nothing for numpy==1 and this Python"),
        ("venv", "Error: No module named venv", "-m venv: Error: No module named venv"),
    ],
)
def test_what_pip_says_in_one_line(
    maker: Maker, pip: FakePip, word: str, text: str, says: str
) -> None:
    pip.fails = {word: text}
    assert says in problem(maker)
    pip.fails = {}
    assert maker.ensure("1.2").ready


def test_a_release_that_does_not_exist_is_told_before_the_base_is_filled(
    maker: Maker, pip: FakePip
) -> None:
    pip.fails = {"tiny==9": "satisfies the requirement tiny==9 (from versions: 1.0)"}
    assert "there is no tiny 9" in problem(maker, "9")
    assert pip.count("torch") == 0 and maker.store.entries() == []


def test_no_space_is_told_before_anything_is_fetched(
    maker: Maker, pip: FakePip, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage(10**9, 10**9, 10**6))
    assert "about 3 MB are needed in " in problem(maker) and "1 are free" in problem(maker)
    assert pip.count("install") == 0


def test_a_wrong_python(maker: Maker, pip: FakePip, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "/no/python: there is no such program" in problem(maker, python=Path("/no/python"))
    old = replace(maker, family=with_recipe(pythons=("3.1", "3.2")))
    here = Path(sys.executable)
    assert f"--python {here} is Python {HERE}; tiny takes 3.1 or 3.2" in problem(old, python=here)
    text = problem(old)
    assert f"tiny takes Python 3.1 or 3.2, this is {HERE}; `slotproof env create" in text
    assert pip.count("python3.1 ") == 1, "others were looked for"
    pip.fails = {"version_info": "pyenv: command not found"}
    assert "is no Python that starts" in problem(maker, python=here)


def test_a_build_that_does_not_start(maker: Maker) -> None:
    def broken(python: Path, family: Family) -> str:
        return "sglang can't be imported: ImportError: nope"

    text = problem(replace(maker, check=broken), "1.0")
    assert text.startswith("tiny==1.0 does not start here: sglang can't be imported: ImportError")
    assert [entry.release for entry in maker.store.entries()] == [""], "the base is good, and stays"


def test_the_driver_is_what_is_started(maker: Maker, tmp_path: Path) -> None:
    assert replace(maker, check=releases.starts).ensure("1.0").ready
    silent = replace(TINY, driver=tmp_path / "none.py")
    with pytest.raises(EnvironmentProblem) as caught:
        replace(maker, family=silent, check=releases.starts).ensure("1.1")
    text = str(caught.value)
    assert "tiny==1.1 does not start here: the driver does not start" in text


# What is there ---------------------------------------------------------------------


def test_a_making_cut_short_leaves_nothing_or_is_made_again(maker: Maker, pip: FakePip) -> None:
    def interrupted(python: Path, family: Family) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replace(maker, check=interrupted).ensure("1.0")
    assert not (maker.store.folder / "tiny-1.0").exists()
    entry = maker.ensure("1.0")
    replace(entry, made="").save()  # as a process that was killed leaves it
    (entry.path / "half").write_text("")
    assert maker.ensure("1.0").ready
    assert not (entry.path / "half").exists()


def test_a_folder_that_is_not_ours_is_never_touched(maker: Maker) -> None:
    mine = maker.store.folder / "tiny-1.0" / "thesis.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("years of work")
    assert "tiny-1.0 is in the way: slotproof did not make it" in problem(maker, "1.0")
    assert mine.read_text() == "years of work"
    fields = dict.fromkeys(("name", "engine", "release", "recipe", "python_version", "base"), "x")
    numbered = json.dumps({"format": 1, **fields, "made": 5})
    for text in ("", "[]", "{}", '{"format": 1, "name": "x"}', numbered):
        (mine.parent / MARKER).write_text(text)
        assert "is in the way" in problem(maker, "1.0")


def test_only_what_carries_our_marker_is_deleted(maker: Maker) -> None:
    """A folder without the marker stays. A removal that a kill cut short is completed."""
    folder = maker.store.folder
    mine = [folder / ".removed-tiny-1.0" / "thesis.txt", folder / ".removed-thesis.txt"]
    mine += [folder / ".marker-mine", folder / ".removed-away" / "link" / "thesis.txt"]
    for path in mine:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("years of work")
    entry = maker.ensure("1.0")
    (entry.path / "link").symlink_to(folder / ".removed-away")
    entry.path.rename(folder / ".removed-tiny-1.0-0123abcd")
    assert maker.store.find("tiny==1.0") is None, "what is on its way out is no environment"
    entry = maker.ensure("1.0")
    assert not (folder / ".removed-tiny-1.0-0123abcd").exists()
    with maker.store.changing(print):
        maker.store.remove(entry)
    assert [path.read_text() for path in mine] == ["years of work"] * len(mine)
    assert {path.name for path in folder.glob(".*")} == {
        ".lock",
        ".removed-tiny-1.0",
        ".removed-thesis.txt",
        ".removed-away",
        ".marker-mine",
    }


def test_a_removal_that_is_cut_short_goes_on_later(
    maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The marker is what goes last: without it nobody would know whose the rest is."""
    entry = maker.ensure("1.0")
    rmtree, turns = shutil.rmtree, iter([0])

    def interrupted(path: Path) -> None:
        if next(turns, None) is None:
            raise KeyboardInterrupt
        rmtree(path)

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt), maker.store.changing(print):
        maker.store.remove(entry)
    monkeypatch.undo()
    (left,) = maker.store.folder.glob(".removed-*")
    assert (left / MARKER).exists()
    with maker.store.changing(print):
        pass
    assert not left.exists()


def test_a_folder_that_can_not_be_written(maker: Maker, tmp_path: Path) -> None:
    (tmp_path / "envs").write_text("a file")
    assert "environments can't be kept in " in problem(maker)


@pytest.mark.parametrize("what", ["python", "package", "base", "base's pip"])
def test_a_damaged_environment_is_told_and_made_again_on_demand(
    cli: Maker, what: str, capfd: pytest.CaptureFixture[str]
) -> None:
    entry = cli.ensure("1.0")
    base = cli.store.folder / entry.base
    gone = {
        "python": entry.python,
        "package": entry.site / "tiny",
        "base": base / MARKER,
        "base's pip": base / "lib" / f"python{HERE}" / "site-packages" / "pip",
    }[what]
    gone.rename(entry.path / "aside")
    assert status(["run", "--engine", "tiny==1.0"]) == 2
    err = capfd.readouterr().err
    assert "the environment of tiny==1.0 is damaged (" in err and err.count("\n") == 1
    assert "`slotproof env create tiny==1.0` makes it again" in err
    assert status(["env", "list"]) == 0
    assert "damaged: " in capfd.readouterr().out
    if what == "base":
        shutil.rmtree(base)
    assert status(["env", "create", "tiny==1.0"]) == 0
    assert releases.of_release("tiny==1.0").ready


def test_again_makes_the_base_too(cli: Maker, pip: FakePip) -> None:
    cli.ensure("1.0")
    before = pip.count(" venv ")
    assert status(["env", "create", "tiny==1.0", "--again"]) == 0
    assert pip.count(" venv ") == before + 2


def test_another_recipe_makes_another_base_and_the_old_one_goes(maker: Maker) -> None:
    maker.ensure("1.0")
    maker.ensure("1.1")
    newer = replace(maker, family=with_recipe(requirements=("torch==3",)))
    assert newer.recipe.digest != TINY.recipe.digest
    newer.ensure("1.0")
    bases = {entry.recipe for entry in maker.store.entries() if not entry.release}
    assert bases == {TINY.recipe.digest, newer.recipe.digest}, "1.1 still uses the old one"
    newer.ensure("1.1")
    bases = {entry.recipe for entry in maker.store.entries() if not entry.release}
    assert bases == {newer.recipe.digest}


def test_an_environment_of_another_python_is_told(maker: Maker) -> None:
    entry = maker.ensure("1.0", Path(sys.executable))
    replace(entry, python_version="3.1").save()
    (entry.path / "lib" / "python3.1").symlink_to(f"python{HERE}")
    with pytest.raises(EnvironmentProblem, match=r"made with Python 3\.1; to have it with"):
        maker.ensure("1.0", Path(sys.executable))


@pytest.mark.parametrize("as_json", [False, True])
def test_an_interrupt_has_the_status_of_an_interrupt(
    cli: Maker, pip: FakePip, as_json: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3, as documented, and not the 130 that typer gives back; nothing is left, nothing locked."""

    def interrupted(argv: Sequence[str], keep_open: Sequence[int], tell: Tell) -> Done:
        if "numpy" in " ".join(argv):
            raise KeyboardInterrupt
        return pip(argv, keep_open, tell)

    make = lambda family, store, check, tell: Maker(family, store, fine, tell, interrupted)  # noqa: E731
    with monkeypatch.context() as patched:
        patched.setattr(use, "Maker", make)
        assert status(["env", "create", "tiny==1.0", *["--json"] * as_json]) == 3
    assert cli.store.entries() == []
    assert {path.name for path in cli.store.folder.iterdir()} == {".lock"}
    assert status(["env", "create", "tiny==1.0"]) == 0


def test_names_in_markers_may_be_odd(cli: Maker) -> None:
    """Digits of other scripts are none: environments are in some order, and no traceback."""
    for name in ("tiny==1.²", "tiny==1.٣", "tiny==1.3"):
        path = cli.store.folder / name
        path.mkdir(parents=True)
        Entry(name, "tiny", name[6:], "x", HERE, "", "", path).save()
    assert status(["env", "list"]) == 0
    assert [entry.name for entry in cli.store.entries()] == ["tiny==1.²", "tiny==1.٣", "tiny==1.3"]


# The command line --------------------------------------------------------------------


def test_create_list_remove(cli: Maker, capfd: pytest.CaptureFixture[str]) -> None:
    assert status(["env", "list"]) == 0
    assert capfd.readouterr().out == f"no environments in {cli.store.folder}\n"
    assert status(["env", "create", "tiny==1.10"]) == 0
    out, err = capfd.readouterr()
    assert out.startswith("tiny==1.10  0 MB  ") and "/tiny-1.10  (" in out
    folder = cli.store.folder
    assert err == f"slotproof: making the environment of tiny==1.10 in {folder}, once\n"
    assert status(["env", "create", "tiny==1.9", "--json"]) == 0
    made = json.loads(capfd.readouterr().out)
    assert (made["name"], made["release"]) == ("tiny==1.9", "1.9") and made["seconds"] >= 0
    assert status(["env", "create", "tiny==1.9"]) == 0
    assert capfd.readouterr().err == "", "it was there"
    assert status(["env", "list"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["tiny==1.9", "tiny==1.10"]
    assert all(" MB  made 20" in line and str(folder) in line for line in lines)
    assert "tiny-base-" in lines[2] and len(lines) == 3
    assert status(["env", "list", "--json"]) == 0
    listed = json.loads(capfd.readouterr().out)
    assert listed["folder"] == str(folder)
    wanted = {"name", "engine", "release", "megabytes", "path", "python", "made", "base", "state"}
    assert all(wanted <= set(row) for row in listed["environments"])
    assert listed["environments"][0]["base"] == listed["environments"][2]["name"]
    assert status(["env", "remove", "tiny==1.9"]) == 0
    assert capfd.readouterr().out == "removed tiny==1.9\n"
    assert not (folder / "tiny-1.9").exists() and len(cli.store.entries()) == 2
    assert status(["env", "remove", "--all", "--json"]) == 0
    assert len(json.loads(capfd.readouterr().out)["removed"]) == 2
    assert {path.name for path in folder.iterdir()} == {".lock"}


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (
            ["env", "create", "toy==1.0"],
            f"there is no recipe for 'toy'; there are: {', '.join(FAMILIES)}",
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
        (["run", "--engine", "sglang==0.5.1@x"], "has an environment of its own"),
        (["run", "--engine", "reference@x"], "device 'x' can't be used"),
        (["run", "--engine", "cmd:x@x"], "can't start x@x"),
    ],
)
def test_wrong_names_are_one_line(
    argv: list[str],
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SLOTPROOF_ENVS", str(tmp_path))
    assert status(argv) == 2
    out, err = capfd.readouterr()
    assert out == "" and err.count("\n") == 1 and text in err
    assert list(tmp_path.iterdir()) in ([], [tmp_path / ".lock"])


def test_an_engine_runs_in_its_environment(cli: Maker, tmp_path: Path) -> None:
    """Made at the first use; any command that takes --engine finds it."""
    engine = EngineSpec("tiny==1.0").open()
    engine.close()
    assert engine.name == "toy" and cli.store.find("tiny==1.0") is not None
    (cli.store.folder / "tiny-1.0" / "bin" / "python").unlink()
    (cli.store.folder / "tiny-1.0" / "bin" / "python").symlink_to("/bin/true")
    with pytest.raises(EngineUnusable, match=r"slotproof env create --again tiny==1\.0"):
        EngineSpec("tiny==1.0").open()


def test_a_folder_called_sglang_is_no_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clone of the engine lies beside us: no module of it is installed."""
    (tmp_path / "sglang").mkdir()
    monkeypatch.chdir(tmp_path)
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
    assert recipe.first.startswith("torch==")
    assert all("==" in line for line in recipe.requirements)
    assert not [line for line in recipe.requirements if line.startswith(("nvidia", "triton"))]
