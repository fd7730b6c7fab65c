"""Where engines legitimately differ, and which choice each made.

Profiles compose: a profile names its base, and what it says itself wins. No state or step invariant
depends on one; transitions read its choices, and ``loan`` says how figures report KV on loan.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypedDict


class Choices(TypedDict, total=False):
    """The choices there are."""

    reserve: int
    """1: the last known token is always recomputed, so that its logits exist; 0: not."""
    aligned_reuse: bool
    """Reuse stops at a page boundary (hardware that needs whole pages, #32163)."""
    retract_keeps: bool
    """A retracted turn leaves its KV in the slot; otherwise it is wiped, as by an abort."""
    abort_publishes: bool
    """An aborted turn may leave its KV to the tree (SGLang 0.5.23); otherwise all is freed."""
    overlap: bool
    """A batch is launched before the result of the one before is known (SGLang's default loop)."""
    loan_publishes: bool
    """A turn publishes its KV while its slot is on loan (vLLM); otherwise the slot's KV never goes
    to the tree."""
    drops_last: bool
    """The last token of an answer is not in the history (vLLM: it had no KV); otherwise it is."""
    queues_turns: bool
    """A turn, or a close, that finds a turn in flight waits for it (vLLM); else it is rejected."""
    keeps_slack: bool
    """A save and a restore leave with a slot what is allocated past its end (vLLM's drafts)."""
    loan: Literal["uncached", "held"]
    """As what KV on loan is reported: SGLang 0.5.11 says uncached, 0.5.23 says held."""


CHOICES: dict[str, str] = {
    "reserve": "positions of the known tokens that a restore always leaves to be recomputed",
    "aligned_reuse": "whether a restore reuses whole pages only",
    "retract_keeps": "whether a retracted turn leaves its KV in the slot",
    "abort_publishes": "whether an aborted turn may leave its KV to the tree",
    "overlap": "whether a round may be launched before the result of the one before is known",
    "loan_publishes": "whether a turn publishes its KV while its slot is on loan",
    "drops_last": "whether a session's history leaves out the last token of each answer",
    "queues_turns": "whether a turn that finds one in flight waits for it, and is not rejected",
    "keeps_slack": "whether what is allocated past the end of a turn stays with its slot",
    "loan": "whether the engine reports KV on loan as uncached or as held",
}


@dataclass(frozen=True)
class Profile:
    """A named set of choices on top of a base."""

    name: str
    sentence: str
    base: str | None = None
    says: Choices = field(default_factory=Choices)
    idle_stays: str = ""
    """Page of the choice that no idle slot gives way to a request that waits; empty: a finding."""

    @cached_property  # asked for after every iteration
    def choices(self) -> Choices:
        """All choices, the base's first.

        >>> PROFILES["sglang-records"].choices["loan"]
        'held'
        """
        inherited = PROFILES[self.base].choices if self.base else Choices()
        return {**inherited, **self.says}


_PROFILES = (
    Profile("reference",
            "the reference engine: retract keeps, one token is reserved for its logits",
            says={"reserve": 1, "aligned_reuse": False, "retract_keeps": True,
                  "abort_publishes": False, "overlap": False, "loan_publishes": False,
                  "drops_last": False, "queues_turns": False, "keeps_slack": False,
                  "loan": "uncached"}),
    Profile("wipe", "a retracted turn gives up its slot", "reference", {"retract_keeps": False}),
    Profile("overlap", "KV is computed one token ahead of what is known", "reference",
            {"overlap": True}),
    Profile("aligned", "reuse of whole pages only", "reference", {"aligned_reuse": True}),
    Profile("sglang", "SGLang with KV on loan reported as uncached (up to 0.5.18)", "reference"),
    Profile("sglang-records", "SGLang 0.5.23: held counts every record", "sglang",
            {"loan": "held", "abort_publishes": True}),
    Profile("vllm",
            "vLLM: a turn on loan publishes, an answer's last token is dropped, turns are queued, "
            "what is allocated past a turn's end stays",
            "wipe", {"loan_publishes": True, "drops_last": True, "queues_turns": True,
                     "keeps_slack": True}, "docs/findings/paused-session-pins.md"),
)  # fmt: skip
PROFILES: dict[str, Profile] = {each.name: each for each in _PROFILES}


def profile_named(name: str) -> Profile:
    """The profile; ``ValueError`` with the names there are.

    >>> profile_named("wipe").choices["retract_keeps"]
    False
    """
    if name not in PROFILES:
        raise ValueError(f"unknown profile {name!r}; there are: {', '.join(PROFILES)}")
    return PROFILES[name]
