"""Causes: groups of findings that come from one bug.

A bug has many identities, because the clause violated first depends on the other events of an
iteration. Two findings share a cause if one patch of a known bug removes both
(:mod:`slotproof.search.patches`), but not if the patch removes only one. All remaining findings
share a cause if the build and a base without these findings differ in a single method. Otherwise,
crashes and stalls share a cause if their messages are equal. Any other two findings share a
cause in three cases. One change of the spec explains both, or one event departs first from the
spec in both, or their clauses and departing variables are equal.
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
    """Findings of one bug."""

    name: str
    """Patch that removes the findings, or the identity of the plainest finding."""
    why: str
    """Reason for treating the findings as one bug, in a sentence."""
    findings: tuple[Finding, ...]
    """One finding of each identity, the plainest first."""
    patch: str = ""
    """Patch of a known bug that removes every finding, or empty."""


def causes(
    findings: Sequence[Finding],
    removed: Mapping[str, str] = MappingProxyType({}),
    words: Mapping[str, str] = MappingProxyType({}),
    method: str = "",
) -> list[Cause]:
    """Group findings by cause. Sort causes without a patch first, and then sort by plainness.

    ``removed``: patch that removes a finding, by identity. ``words``: description of each patch.
    ``method``: the only method in which the build differs from a build without the findings.
    """
    looks = {id(finding): _look(finding) for finding in findings}

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
        linked = [group for group in groups if any(linked_to(finding, member) for member in group)]
        merged = [finding, *(member for group in linked for member in group)]
        groups = [group for group in groups if group not in linked] + [merged]
    made = [_cause(group, removed, words, method) for group in groups]
    return sorted(made, key=lambda cause: (bool(cause.patch), cause.findings[0].plainness))


def _event(finding: Finding) -> str:
    """Return the transition that departs first from the spec, without ``PLAIN-`` in its name."""
    return finding.mark.at.replace("T-PLAIN-", "T-")


def _look(finding: Finding) -> tuple[object, ...]:
    """Return the clause, all violated clauses, and the variables that differ from the spec's."""
    shown = symptoms(finding.trace, finding.mark)
    return finding.mark.clause, shown.clauses, shown.departs


def _cause(
    group: list[Finding], removed: Mapping[str, str], words: Mapping[str, str], method: str
) -> Cause:
    plainest: dict[str, Finding] = {}
    for finding in sorted(group, key=lambda finding: finding.plainness):
        plainest.setdefault(finding.id, finding)
    members = tuple(plainest.values())
    first = members[0]
    if patch := removed.get(first.id, ""):
        return Cause(patch, words.get(patch, ""), members, patch)
    if method:
        why = f"the build's Python files differ from the base's only in {method}"
        return Cause(first.id, why, members)
    changes = [change.words for change in first.trace.explained or () if change.always]
    shared = [text for text in changes if all(text in other.trace.changes for other in members)]
    if shared:
        return Cause(first.id, f"as if {shared[0]}", members)
    if first.mark.what or len(members) == 1:
        return Cause(first.id, "", members)
    linked = any(one.trace.changes & other.trace.changes for one, other in combinations(members, 2))
    why = "the same spec changes explain all findings" if linked else "the same clauses are broken"
    if len({_event(finding) for finding in members}) == 1:
        why = f"{_event(first)} departs from the spec first"
    return Cause(first.id, why, members)
