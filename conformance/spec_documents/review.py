"""What a reviewer of a pull request on session code should ask, by what the change touches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Area:
    """Code that changes together, the transitions it carries out, and what to ask of it."""

    name: str
    code: str
    transitions: tuple[str, ...]
    questions: tuple[str, ...]
    """Each ends with the clauses that it is about, in brackets."""


AREAS = (
    Area(
        "Open, close, time out",
        "`SessionController`: `open`, `_close`, `maybe_reap`",
        ("T-OPEN", "T-CLOSE", "T-CLOSE-DEFER", "T-REAP"),
        (
            "Does a close that finds a turn in flight wait for it? [INV-INFLIGHT, INV-OWNER]",
            "Is the slot's tree lock dropped once, and only then? [INV-LOCK]",
        ),
    ),
    Area(
        "A turn is queued, or rejected",
        "`_request_dispatcher`, `Session.create_req`, `init_next_round_input`",
        ("T-SUBMIT", "T-REJECT", "T-DOOM", "T-PLAIN-SUBMIT"),
        (
            (
                "Is a second turn turned away before it touches slot, history or in-flight? "
                "[INV-INFLIGHT-STEP]"
            ),
            "Is the history left alone until the turn finishes? [INV-HISTORY]",
            (
                "Does a turn that will be aborted leave the session before it is matched? "
                "[INV-QUEUED-STEP]"
            ),
        ),
    ),
    Area(
        "Match and restore",
        "`match_prefix`, `restore_to_req`, `free_tail`, `PrefillAdder.add_one_req`",
        ("T-MATCH", "T-RESTORE", "T-REFUSE", "T-DISCARD"),
        (
            (
                "Is what lies past the matched prefix freed, from the next page boundary on, once? "
                "[INV-OWNER, INV-ALIGN]"
            ),
            "Are C, A and E cut together? [INV-ORDER, INV-CURSOR]",
            (
                "If the scheduler then refuses the turn: is `lent` cleared, is the KV still the "
                "slot's? [INV-ONCE, INV-CLEAN]"
            ),
            "Is Q the tree's prefix, not everything committed? [INV-ALIGN, INV-LOCK]",
        ),
    ),
    Area(
        "Prefill and decode",
        "`prepare_for_extend`, `prepare_for_decode`, `cache_unfinished_req`, "
        "`free_swa_out_of_window_slots`",
        ("T-EXTEND", "T-PARK", "T-INSERT", "T-DECODE", "T-SWA-ADVANCE"),
        (
            "Is a turn between two chunks still counted, once? [INV-SUM-FULL, INV-CHECKER]",
            "Does the cursor stay below every window that is still needed? [INV-WINDOW]",
            (
                "On insert: is what the tree had freed, the rest moved, the row rewritten? "
                "[INV-OWNER, INV-LOCK-STEP]"
            ),
        ),
    ),
    Area(
        "Finish and save",
        "`cache_finished_req`, `release_kv_cache`, `save_from_req`, `trim_overshoot`",
        ("T-SAVE", "T-PLAIN-FINISH"),
        (
            (
                "Is what speculation left past the finished length given back, and C, A **and** E "
                "capped? [INV-COVER, INV-CURSOR]"
            ),
            "Is the slot made where the turn had none? [INV-ROWS]",
        ),
    ),
    Area(
        "Abort and out of memory",
        "`abort_request`, `release_kv_cache`, `retract_decode` when a turn is alone",
        (
            "T-ABORT",
            "T-ABORT-PUBLISH",
            "T-OOM",
            "T-ABORT-WAITING",
            "T-ABORT-PARTIAL",
            "T-PLAIN-ABORT",
        ),
        (
            (
                "Do KV, row **and** lock go back, on the first turn (no slot yet) as well? "
                "[INV-OWNER, INV-ROWS, INV-LOCK]"
            ),
            (
                "Does the abort of a queued turn free nothing that it does not hold? "
                "[INV-QUEUED-STEP]"
            ),
        ),
    ),
    Area(
        "Retract and evict",
        "`retract_decode`, `release_kv_cache`, the tree's `evict`",
        ("T-RETRACT", "T-RETRACT-WIPE", "T-PLAIN-RETRACT", "T-EVICT"),
        (
            "Is the turn still in flight, and the history unchanged? [INV-INFLIGHT, INV-HISTORY]",
            "Does memory come free, so that the batch gets on? [INV-PROGRESS]",
        ),
    ),
    Area(
        "The engine's own check",
        "`self_check_during_busy`, `session_held_tokens`, `_get_batch_uncached_size`",
        (),
        (
            (
                "Does it run in every iteration with a batch, drafts included, for every pool? "
                "[INV-CHECKER]"
            ),
            (
                "Is KV on loan counted in held or in uncached, and a turn in two batches once? "
                "[INV-ONCE]"
            ),
        ),
    ),
)
