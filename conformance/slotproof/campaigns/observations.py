"""Examples as observations: one JSON line each, as Hypothesis publishes them and viewers read them.

The schema is that of https://hypothesis.readthedocs.io/en/latest/reference/internals.html#observability:
what an example was, whether it passed, what it reached. The lines of a task are written before its
line in the journal, which says how long the file was then: who goes on cuts off the rest.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from slotproof.campaigns.journal import unwritable
from slotproof.search.guided import Observed


class Observations:
    """A file of them, in the folder of a journal."""

    def __init__(self, path: Path, engine: str, run_start: float, whole: int) -> None:
        """``whole`` are the bytes that belong to what the journal says is done. Raises
        ``OSError``."""
        self.path, self.engine, self.run_start = path, engine, run_start
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        os.ftruncate(self._file, min(whole, os.fstat(self._file).st_size))
        os.lseek(self._file, 0, os.SEEK_END)

    def add(self, config: str, where: Mapping[str, int], examples: Iterable[Observed]) -> int:
        """Those of a task; the bytes there are then. Raises :class:`BadJournal`."""
        said = [
            {**self.line(config, each), "metadata": {**where, "example": number}}
            for number, each in enumerate(examples)
        ]
        text = "".join(f"{json.dumps(each, ensure_ascii=False)}\n" for each in said)
        try:
            left = memoryview(text.encode("utf-8", "replace"))
            while left:
                left = left[os.write(self._file, left) :]
            os.fsync(self._file)
        except OSError as error:
            raise unwritable(self.path, error) from None
        return os.lseek(self._file, 0, os.SEEK_CUR)

    def line(self, config: str, example: Observed) -> dict[str, Any]:
        """One example."""
        commands = [json.dumps(each, ensure_ascii=False) for each in example.commands]
        return {
            "type": "test_case",
            "run_start": self.run_start,
            "property": f"{self.engine}: {config}",
            "status": "failed" if example.shown else "passed",
            "status_reason": example.shown,
            "representation": "\n".join(commands),
            "arguments": {"commands": list(example.commands)},
            "how_generated": example.how,
            "features": {
                "configuration": config,
                "commands": len(example.commands),
                "reached": len(example.reached),
                "new": len(example.new),
                **dict.fromkeys(sorted(example.new), "new"),
            },
            "coverage": None,
            "timing": {"execute:test": round(example.seconds, 6)},
            "metadata": {},
        }

    def close(self) -> None:
        os.close(self._file)
