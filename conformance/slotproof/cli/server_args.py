"""Configuration of a run from a server's command line."""

from __future__ import annotations

from slotproof.cli.errors import UsageProblem
from slotproof.environments.families import FAMILIES
from slotproof.protocol import flags
from slotproof.protocol.named import written
from slotproof.support.terminal import complain_text

NAME = "--server-args"


def configured(engine: str, text: str) -> str:
    """Report each flag of a command line on standard error, and return the configuration's name.

    Raises :class:`UsageProblem` for a refused or unknown flag.
    """
    family = FAMILIES.get(engine.partition("==")[0].partition("@")[0])
    if family is None or (table := family.flags) is None:
        able = " or ".join(name for name, other in FAMILIES.items() if other.flags)
        raise UsageProblem(f"{NAME} needs a build of {able}: {engine!r} has no table of flags")
    reading = flags.read(table, text)
    if reading.refused:
        raise UsageProblem(f"{NAME}: the driver refuses {'; '.join(reading.refused)}")
    config, lines = flags.configuration(table, reading.fields)
    complain_text("\n".join([*reading.lines, *lines]))
    return written(config)
