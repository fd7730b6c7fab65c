"""What an event's parameters mean, in terms of the state before and after it.

The author of a driver reads this: what he reports must be true of the engine.
That the effects in ``transitions`` agree is an obligation like any other
(``T-CLOSE / MEANS.u``): a parameter that does nothing, or something else than
it says, is noticed.
"""

from __future__ import annotations

from slotproof.model.language import *


def _gain(figure: Var) -> Expr:
    return after(figure) - figure


_given_back = {
    "u": param("u") == full.protected - after(full.protected),
    "swa_u": param("swa_u") == swa.protected - after(swa.protected),
}
_tail = ceil_page(turn_kv.A)
_published = {
    "dup": param("dup") == _gain(full.available) - (_tail - param("q")),
    "swa_dup": implies(
        config.swa,
        param("swa_dup") == _gain(swa.available) - (_tail - maximum(param("q"), turn_kv.E)),
    ),
    **_given_back,
}


def _kept(kv: Kv, upto: Expr) -> Expr:
    """A cut keeps every valid position that it may: recomputing them would break no invariant."""
    return implies(upto >= kv.E, after(slot_kv.C) == minimum(kv.C, upto))


MEANING: dict[str, dict[str, Expr]] = {
    "T-CLOSE": _given_back,
    "T-REAP": _given_back,
    "T-SUBMIT": {
        "new": after(turn.prompt) == session.history + param("new"),
        "nonempty": after(turn.prompt) >= 1,
    },
    "T-REJECT": {"stub": session.inflight | session.closing},
    "T-DOOM": {"doomed": turn.kind == TURN},
    "T-PLAIN-SUBMIT": {"prompt": after(turn.prompt) == param("prompt")},
    "T-MATCH": {
        "m": after(turn_kv.Q) == param("m"),
        "u": _gain(full.protected) == param("u"),
        "swa_u": _gain(swa.protected) == param("swa_u"),
    },
    "T-DISCARD": _given_back,
    "T-REFUSE": _given_back,
    "T-EXTEND": {
        "t": after(turn_kv.C) == param("t"),
        "sampled": _gain(turn.output) == param("sampled"),
        "row": after(turn_kv.row) == param("row"),
    },
    "T-INSERT": {
        "q": after(turn_kv.Q) == param("q"),
        "dup": _gain(full.available) == param("dup"),
        "swa_dup": implies(config.swa, _gain(swa.available) == param("swa_dup")),
        "u": _gain(full.protected) == param("u"),
        "swa_u": _gain(swa.protected) == param("swa_u") - param("swa_x"),
    },
    "T-DECODE": {
        "d": _gain(turn_kv.A) == param("d"),
        "k": (_gain(turn_kv.C) == param("k")) & (_gain(turn.output) == param("k")),
    },
    "T-SWA-ADVANCE": {"e": after(turn_kv.E) == param("e")},
    "T-SAVE": {
        "F": after(session.history) == turn.prompt + param("F"),
        "kept": _kept(turn_kv, turn.prompt + param("F")),
    },
    "T-ABORT": _given_back,
    "T-ABORT-PARTIAL": {"kept": _kept(slot_kv, session.history)},
    "T-ABORT-PUBLISH": {**_published, "profile": config.abort_publishes},
    "T-OOM": _given_back,
    "T-RETRACT": {"profile": config.retract_keeps & after(slot.holding)},
    "T-RETRACT-WIPE": {**_given_back, "profile": ~config.retract_keeps & ~after(slot.holding)},
    "T-EVICT": {
        "n": _gain(full.available) == param("n"),
        "swa_n": implies(config.swa, _gain(swa.available) == param("swa_n")),
    },
    "T-PLAIN-FINISH": _published,
    "T-PLAIN-ABORT": _given_back,
    "T-PLAIN-RETRACT": _given_back,
}
"""By transition and parameter; ``profile``, ``stub`` and ``doomed`` say what the label claims,
``nonempty`` and ``kept`` what the sentence promises beyond the invariants."""
