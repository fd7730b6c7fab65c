"""Causes: findings of one bug, put together.

Which clause breaks first depends on the other events of an iteration, so one bug has many
identities. Two findings share a cause if one patch of a known bug removes both
(:mod:`slotproof.search.patches`), or if one change of the spec explains both. A finding that a
patch removes shares nothing with a finding that this patch leaves. All others have one cause where
the build differs in one method from a base that shows none of them. Else they share a cause if
the same event, of a turn or of a plain request, departs first, or if they break the same clauses
and depart in the same variables; crashes and stalls if their words are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType

from slotproof.search.findings import Finding
from slotproof.search.symptoms import symptoms


@dataclass(frozen=True)
class Cause:
    """The findings of one bug."""

    name: str
    """The patch that removes them, or the identity of the plainest finding."""
    why: str
    """A sentence: the reason to take them for one bug."""
    findings: tuple[Finding, ...]
    """One of each identity, the plainest first."""
    patch: str = ""
    """The patch of a known bug that removes each of them; empty: none does."""


def causes(
    findings: Sequence[Finding],
    removed: Mapping[str, str] = MappingProxyType({}),
    words: Mapping[str, str] = MappingProxyType({}),
    method: str = "",
) -> list[Cause]:
    """Group findings by cause. Causes that no patch removes come first, then the plainest.

    ``removed`` has the patch by the identity of a finding, ``words`` the sentence of a patch;
    ``method`` is the only one that differs from a build that shows none of the findings.
    """
    looks = {id(each): _look(each) for each in findings}

    def linked_to(one: Finding, other: Finding) -> bool:
        patches = removed.get(one.id), removed.get(other.id)
        if any(patches):
            return patches[0] == patches[1]
        if method:
            return True
        if one.mark.what or other.mark.what:
            return one.mark.stop == other.mark.stop
        if one.trace.changes & other.trace.changes or looks[id(one)] == looks[id(other)]:
            return True
        return _event(one) == _event(other) and one.mark.reporting == other.mark.reporting

    groups: list[list[Finding]] = []
    for finding in findings:
        linked = [group for group in groups if any(linked_to(finding, each) for each in group)]
        merged = [finding, *(each for group in linked for each in group)]
        groups = [group for group in groups if group not in linked] + [merged]
    made = [_cause(group, removed, words, method) for group in groups]
    return sorted(made, key=lambda cause: (bool(cause.patch), cause.findings[0].plainness))


def _event(finding: Finding) -> str:
    """The transition that departs first; that of a plain request is the one of a turn."""
    return finding.mark.at.replace("T-PLAIN-", "T-")


def _look(finding: Finding) -> tuple[object, ...]:
    """The clauses that it breaks, the first of them, and the variables in which it departs."""
    shown = symptoms(finding.trace, finding.mark)
    return finding.mark.clause, shown.clauses, shown.departs


def _cause(
    group: list[Finding], removed: Mapping[str, str], words: Mapping[str, str], method: str
) -> Cause:
    plainest: dict[str, Finding] = {}
    for each in sorted(group, key=lambda each: each.plainness):
        plainest.setdefault(each.id, each)
    found = tuple(plainest.values())
    first = found[0]
    patch = removed.get(first.id, "")
    if patch:
        return Cause(patch, words.get(patch, ""), found, patch)
    if method:
        return Cause(first.id, f"its Python files differ from the base's in {method} alone", found)
    shared = [each.words for each in first.trace.explained or () if each.always]
    shared = [each for each in shared if all(each in other.trace.changes for other in found)]
    if shared:
        return Cause(first.id, f"as if {shared[0]}", found)
    if first.mark.what or len(found) == 1:
        return Cause(first.id, "", found)
    linked = any(one.trace.changes & other.trace.changes for one, other in combinations(found, 2))
    why = "the same changes of the spec explain them" if linked else "they break the same clauses"
    if len({_event(each) for each in found}) == 1:
        why = f"{_event(first)} departs from the spec first"
    return Cause(first.id, why, found)
