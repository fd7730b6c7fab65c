"""SGLang driver and recorder, run in the environment of a build. See ../README.md."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "common"))  # Code shared by the drivers.
