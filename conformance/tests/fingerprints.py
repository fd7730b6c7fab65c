"""Write the fingerprints of releases beside their driver, from wheels downloaded by pip.

    python conformance/tests/fingerprints.py sglang==0.5.23 vllm==0.33.0
    python conformance/tests/fingerprints.py WHEEL...

A release is downloaded whole, read and deleted. Other releases stay in the file.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

from packaging.version import Version

from slotproof.engines.identity import of_record
from slotproof.environments.families import FAMILIES

HEAD = """\
# Fingerprints of the Python files of releases, as the package index has them for x86_64:
# conformance/tests/fingerprints.py writes them, and `slotproof/engines/identity.py` makes the same
# of the files of a build.
"""


def of_wheel(path: Path) -> tuple[str, str, str]:
    """Return family, release and fingerprint."""
    name, release, *_ = path.name.split("-")
    with zipfile.ZipFile(path) as wheel:
        record = wheel.read(f"{name}-{release}.dist-info/RECORD").decode()
    return name, release, of_record(record, name)


def download(name: str, folder: str) -> Path:
    """Return the wheel of a release."""
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:"]
    subprocess.run([*pip, "--python-version", "3.11", "-d", folder, name], check=True)
    (wheel,) = Path(folder).glob("*.whl")
    return wheel


def add(name: str, release: str, fingerprint: str) -> None:
    """Write a release's fingerprint into the file of its family."""
    path = FAMILIES[name].driver.with_name("fingerprints.toml")
    known = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    known[release] = fingerprint
    lines = (f'"{version}" = "{known[version]}"\n' for version in sorted(known, key=Version))
    path.write_text(HEAD + "".join(lines), encoding="utf-8")


def main() -> None:
    for argument in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            wheel = Path(argument) if argument.endswith(".whl") else download(argument, folder)
            add(*of_wheel(wheel))


if __name__ == "__main__":
    main()
