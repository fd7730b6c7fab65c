"""The command line with an additional family: wheels built here, and the toy driver."""

import base64
import hashlib
import os
import sys
import zipfile
from pathlib import Path

from slotproof.cli.app import main
from slotproof.environments.families import FAMILIES
from slotproof.protocol.family import Family, Recipe

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
TINY = Family(
    name="tiny",
    recipe=Recipe(requirements=("torch==2",), pythons=(HERE,), shared_mb=2, release_mb=1),
    driver=Path(__file__).parents[2] / "slotproof" / "drivers" / "examples" / "toy.py",
)


def wheel(folder: Path, name: str, version: str, code: str = "", needs: str = "") -> None:
    module, requires = name.replace("-", "_"), f"Requires-Dist: {needs}\n" if needs else ""
    info = f"{module}-{version}.dist-info"
    tags = "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(folder / f"{module}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{module}/__init__.py", code)
        file.writestr(f"{module}/kernels.so", "")
        file.writestr(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}",
        )
        file.writestr(f"{info}/WHEEL", tags)
        digest = base64.urlsafe_b64encode(hashlib.sha256(code.encode()).digest()).decode()
        row = f"{module}/__init__.py,sha256={digest.rstrip('=')},{len(code)}\n"
        file.writestr(f"{info}/RECORD", row)


def wheels(folder: Path) -> dict[str, str]:
    """Build the wheels. Return variables that point pip at the folder and away from the network."""
    folder.mkdir()
    wheel(folder, "torch", "2")
    for release in ("1.0.0", "1.1.0"):
        wheel(folder, "tiny", release, f"import torch\nrelease = {release!r}\n")
    return {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)}


if __name__ == "__main__":
    FAMILIES["tiny"] = TINY
    main()
