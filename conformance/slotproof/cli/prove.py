"""``slotproof prove``: proofs of the spec's invariants, for any number of sessions."""

from __future__ import annotations

from slotproof.cli.errors import UsageProblem
from slotproof.cli.options import JSON, known_profile, number, option

SIZE_HELP = "Page size. Repeatable. Default: 1, 4, 16, 64 (--mutant: 1, 4; --progress: also any)."
WITHOUT_HELP = "With --progress: assume that the engine never takes this transition. Repeatable."
PROFILE_HELP = "With --progress: prove progress for this profile. Default: for every profile."
DEPTH_HELP = "With --mutant: maximum number of transitions. Default: 9."
MUTANT_HELP = "Find the shortest counterexample of this known bug, or of the spec itself (spec)."


def prove(
    page_size: list[int] | None = option("--page-size N", "Proof", SIZE_HELP),
    any_page_size: bool = option("--any", "Proof", "Prove every page size at once.", False),
    transition: list[str] | None = option("--transition ID", "Proof", "Transition to prove."),
    jobs: int = option("--jobs N", "Proof", "Parallel processes. 0: one per core.", 0),
    progress: bool = option("--progress", "Proof", "Prove that no request waits forever.", False),
    without: list[str] | None = option("--without TRANSITION", "Proof", WITHOUT_HELP),
    profile: str | None = option("--profile PROFILE", "Proof", PROFILE_HELP),
    mutant: str | None = option("--mutant NAME", "Proof", MUTANT_HELP),
    depth: int | None = option("--depth N", "Proof", DEPTH_HELP),
    as_json: bool = JSON,
) -> int:
    """Prove the spec's invariants, for some page sizes or for every page size."""
    if progress and mutant:
        raise UsageProblem("--mutant and --progress exclude each other: leave out one of them")
    mode = "--progress" if progress else "--mutant" if mutant else "the proof of the invariants"
    for name, given, *modes in (
        ("--transition", transition, "the proof of the invariants"),
        ("--jobs", jobs, "the proof of the invariants"),
        ("--any", any_page_size, "the proof of the invariants", "--progress"),
        ("--without", without, "--progress"),
        ("--profile", profile, "--progress"),
        ("--depth", depth is not None, "--mutant"),
    ):
        if given and mode not in modes:
            raise UsageProblem(f"{name} applies only to {' and '.join(modes)}")
    try:
        from slotproof.cli import prove_invariants, prove_mutant, prove_progress
    except ModuleNotFoundError as error:
        if error.name != "z3":
            raise
        raise UsageProblem("proofs need Z3: pip install z3-solver") from None
    sizes = [number(size, 1, "--page-size") for size in page_size or ()]
    if mutant is not None:
        most = 9 if depth is None else number(depth, 1, "--depth")
        return prove_mutant.refute(mutant, sizes or [1, 4], most, as_json)
    every = [*sizes, *[None] * any_page_size]
    if progress:
        return prove_progress.prove(every, without or [], known_profile(profile), as_json)
    return prove_invariants.prove(every, transition, jobs, as_json)
