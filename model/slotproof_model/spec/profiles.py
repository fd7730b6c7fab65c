"""Legitimate differences between engines, and the choices of each engine.

A profile overrides choices of its base profile. Transitions read the choices, but no state or step
invariant depends on a profile. ``loan`` names the count in which the engine reports KV on loan.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypedDict


class Choices(TypedDict, total=False):
    """All choices."""

    reserve: int
    """1: the last known token is always recomputed, so that its logits exist. 0: the token may be
    reused."""
    aligned_reuse: bool
    """Reuse stops at a page boundary, for hardware that needs whole pages (#32163)."""
    retract_keeps: bool
    """A retracted turn leaves its KV in the slot. Otherwise the KV is freed, as by an abort."""
    abort_publishes: bool
    """An aborted turn may publish its KV (SGLang 0.5.23). Otherwise all KV is freed."""
    overlap: bool
    """A batch is launched before the previous result is known (SGLang's default loop)."""
    loan_publishes: bool
    """A turn publishes its KV while its slot is on loan (vLLM). Otherwise a slot's KV is never
    published."""
    drops_last: bool
    """The history leaves out an answer's last token, which has no KV (vLLM)."""
    queues_turns: bool
    """A turn or a close waits for the turn in flight (vLLM). Otherwise the turn is rejected."""
    keeps_slack: bool
    """A save or restore leaves the slot its memory past the KV's end, for draft tokens (vLLM)."""
    loan: Literal["uncached", "held"]
    """Count in which the engine reports KV on loan: uncached in SGLang 0.5.11, held in 0.5.23."""


CHOICES: dict[str, str] = {
    "reserve": "number of known tokens that a restore always leaves to be recomputed",
    "aligned_reuse": "whether a restore reuses whole pages only",
    "retract_keeps": "whether a retracted turn leaves its KV in the slot",
    "abort_publishes": "whether an aborted turn may leave its KV to the tree",
    "overlap": "whether a decoding round may be launched before the previous round's result is "
    "known",
    "loan_publishes": "whether a turn publishes its KV while its slot is on loan",
    "drops_last": "whether a session's history leaves out the last token of each answer",
    "queues_turns": "whether a turn is queued, not rejected, while another is in flight",
    "keeps_slack": "whether memory allocated past the end of a turn stays with its slot",
    "loan": "whether the engine reports KV on loan as uncached or as held",
}


@dataclass(frozen=True)
class Profile:
    """A named set of choices that overrides the choices of a base profile."""

    name: str
    sentence: str
    base: str | None = None
    says: Choices = field(default_factory=Choices)
    idle_stays: str = ""
    """Documentation page on why idle slots stay while requests wait. If empty, an idle slot that
    stays is a finding."""

    @cached_property  # read after every iteration
    def choices(self) -> Choices:
        """All choices of the base profile, overridden by this profile's choices.

        >>> PROFILES["sglang-records"].choices["loan"]
        'held'
        """
        inherited = PROFILES[self.base].choices if self.base else Choices()
        return {**inherited, **self.says}


_PROFILES = (
    Profile("reference",
            "the reference engine: a retract preserves KV, one token is reserved for logits",
            says={"reserve": 1, "aligned_reuse": False, "retract_keeps": True,
                  "abort_publishes": False, "overlap": False, "loan_publishes": False,
                  "drops_last": False, "queues_turns": False, "keeps_slack": False,
                  "loan": "uncached"}),
    Profile("wipe", "a retracted turn gives up its slot", "reference", {"retract_keeps": False}),
    Profile("overlap", "KV is computed one token ahead of the known tokens", "reference",
            {"overlap": True}),
    Profile("aligned", "a restore reuses whole pages only", "reference", {"aligned_reuse": True}),
    Profile("sglang", "SGLang with KV on loan reported as uncached (up to 0.5.18)", "reference"),
    Profile("sglang-records", "SGLang 0.5.23: KV on loan is reported as held", "sglang",
            {"loan": "held", "abort_publishes": True}),
    Profile("vllm",
            "vLLM: a turn publishes while its slot is on loan, the history drops an answer's last "
            "token, turns are queued, memory past a turn's end stays with the slot",
            "wipe", {"loan_publishes": True, "drops_last": True, "queues_turns": True,
                     "keeps_slack": True}, "docs/findings/paused-session-pins.md"),
)  # fmt: skip
PROFILES: dict[str, Profile] = {profile.name: profile for profile in _PROFILES}


def profile_named(name: str) -> Profile:
    """Return the profile. Raise ``ValueError`` with all names if no profile has this name.

    >>> profile_named("wipe").choices["retract_keeps"]
    False
    """
    if name not in PROFILES:
        raise ValueError(f"unknown profile {name!r}; there are: {', '.join(PROFILES)}")
    return PROFILES[name]
