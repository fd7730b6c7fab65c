"""Profiles compose: the base first, overridden by the derived profile."""

from __future__ import annotations

import pytest

from slotproof_model.spec.profiles import CHOICES, PROFILES, Profile, profile_named


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_makes_every_choice(name: str) -> None:
    assert PROFILES[name].choices.keys() == CHOICES.keys()
    assert PROFILES[name].sentence


def test_what_a_profile_says_itself_wins() -> None:
    assert PROFILES["reference"].choices["retract_keeps"] is True
    assert PROFILES["wipe"].choices["retract_keeps"] is False
    assert PROFILES["wipe"].choices["reserve"] == 1, "inherited"
    assert PROFILES["sglang"].choices["loan"] == "uncached"
    assert PROFILES["sglang-records"].choices["loan"] == "held"


def test_vllm_is_another_family() -> None:
    """vLLM wipes, as `wipe` does. Its other choices belong to no profile of SGLang."""
    own = ("loan_publishes", "drops_last", "queues_turns", "keeps_slack")
    for name, profile in PROFILES.items():
        assert {profile.choices[choice] for choice in own} == {name == "vllm"}  # type: ignore[literal-required]  # by name
    assert PROFILES["vllm"].choices["retract_keeps"] is False


def test_composition_is_deep() -> None:
    """A profile on a profile on a profile."""
    derived = Profile("mine", "", "sglang-records", {"reserve": 0})
    base = PROFILES["sglang-records"].choices
    assert derived.choices == {**base, "reserve": 0}


def test_an_unknown_profile_is_named_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="unknown profile 'lmdeploy'; there are: reference, wipe"):
        profile_named("lmdeploy")
    assert profile_named("wipe") is PROFILES["wipe"]
