"""`prove` reports the reasons for which obligations hold, and counts only proofs as proved."""

from typing import Any

ONE = ["prove", "--transition", "T-PARK", "--jobs", "1"]


def test_figures_of_proofs_are_apart(cli: Any) -> None:
    result = cli.json([*ONE, "--page-size", "4", "--json"])
    figures = result["reasons"]
    kinds = [figures[kind] for kind in ("inductive", "effect", "framing", "excluded")]
    assert figures["page_size"] == 4 and all(kinds)
    assert sum(kinds) == figures["obligations"] == result["obligations"] == result["hold"]
    assert figures["proved"] == sum(kinds[:3])
    named = [row["reason"] for row in result["results"]]
    assert named.count("excluded") == figures["excluded"]
    said = cli([*ONE, "--page-size", "4"])
    assert f"{result['hold']} of {result['obligations']} obligations hold, page sizes 4, in" in said
    assert f"P=4: {figures['proved']} proved: {figures['inductive']} by induction, " in said
    assert f"P=4: {figures['excluded']} not counted as proved: " in said


def test_other_page_sizes_have_no_reasons(cli: Any) -> None:
    said = cli([*ONE, "--page-size", "1"])
    assert "obligations hold, page sizes 1, in" in said
    assert "reasons are counted at P=4 only: add --page-size 4" in said
    assert cli.json([*ONE, "--page-size", "1", "--json"])["reasons"] is None
