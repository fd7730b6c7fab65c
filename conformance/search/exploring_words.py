"""What exploring an engine is made of: classes of states, words to try, configurations.

A *class* is a small abstraction of a snapshot that keeps apart what the guards of
the spec keep apart. A *word* is a few client commands, tried together.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from slotproof.conformance.lockstep.referee import Referee
from slotproof.conformance.protocol.commands import Command
from slotproof.conformance.protocol.config import EngineConfig
from slotproof.conformance.search.machine import prompt
from slotproof.model.layout import INDEX, OWN
from slotproof.model.state import MATCHED
from slotproof.model.world import World

Class = tuple[object, ...]


# States -----------------------------------------------------------------------


def class_of(world: World) -> Class:
    """What makes two states alike: who is in which phase, what their KV is like, how tight it is.

    Sessions are interchangeable, and so are requests without one, of which only the
    different ones count. Lengths count only by what guards ask of them.
    """
    page = world.constants.page_size
    sessions = []
    alone = set()
    for key, values in world.actors.items():
        if key.startswith("/"):
            alone.add(_request(values, page))
        else:
            sessions.append((*_session(values), *_slot(values, page), *_request(values, page)))
    available, evictable, swa_available, free_rows = (
        world.pools[INDEX[name]]
        for name in ("full.available", "full.evictable", "swa.available", "rows.free")
    )
    pools = (available >= page, evictable > 0, swa_available >= page, free_rows > 0)
    return (*pools, tuple(sorted(sessions)), tuple(sorted(alone)))


def _session(values: list[int]) -> tuple[int, ...]:
    names = ("open", "closing", "inflight")
    return (*(values[OWN[f"session.{name}"]] for name in names), values[OWN["session.history"]] > 0)


def _slot(values: list[int], page: int) -> tuple[int, ...]:
    """Whether there is one, on loan, past the history; how it ends, what it owns not."""
    holding, lent, C, A, Q, E = (
        values[OWN[f"slot.{name}"]] for name in ("holding", "lent", "C", "A", "Q", "E")
    )
    if not holding or lent:
        return (holding, lent, 0, 0, 0, 0)
    return (holding, lent, values[OWN["session.history"]] < C, A % page > 0, Q > 0, E > 0)


def _request(values: list[int], page: int) -> tuple[int, ...]:
    """Kind and phase; with KV: whether it has generated, is prefilled, has slack, and so on."""
    kind, phase, prompt_, output, C, A, Q, E = (
        values[OWN[f"turn.{name}"]]
        for name in ("kind", "phase", "prompt", "output", "C", "A", "Q", "E")
    )
    if phase < MATCHED:
        return (kind, phase, output > 0, 0, 0, 0, 0, 0)
    return (kind, phase, output > 0, prompt_ + output - 1 > C, A > C, Q > 0, E > Q, A % page > 0)


# Words ------------------------------------------------------------------------

STEP: Command = {"do": "step", "n": 1}


def _turn(session: str | None, length: int, new: int) -> Command:
    tokens = prompt(0, length)
    return {"do": "submit", "session": session, "tokens": tokens, "max_new": new, "stop": []}


def _abort(whose: str) -> Command:
    return {"do": "abort", "rid": whose}


def alphabet(config: EngineConfig, offered: frozenset[str]) -> dict[str, tuple[Command, ...]]:
    """What clients, operators and time can do: few choices, each of a different kind.

    All prompts begin alike, so that the tree is used. A request to abort is named by
    whose it is; a word of which nobody is meant at the moment is not tried.
    """
    page = config.page_size
    fits = min(config.context_len, config.total_tokens)
    large, other = _turn("s1", page + 2, 3), _turn("s2", page + 2, 2)
    words: dict[str, tuple[Command, ...]] = {
        "step": (STEP,),
        "open s1": ({"do": "open", "session": "s1"}, STEP),
        "open s2": ({"do": "open", "session": "s2"}, STEP),
        "small turn": (_turn("s1", 1, 0), STEP),
        "bare turn": (_turn("s1", 0, 1), STEP),
        "large turn": (large, STEP),
        "other turn": (other, STEP),
        "both turns": (large, other, STEP),
        "growing turn": (_turn("s1", fits - 1, 4), STEP),
        "too long": (_turn("s1", config.context_len + 1, 1), STEP),
        "plain": (_turn(None, 2 * page + 2, 3), STEP),
        "abort s1": (_abort("s1"), STEP),
        "abort s2": (_abort("s2"), STEP),
        "abort plain": (_abort(""), STEP),
        "close s1": ({"do": "close", "session": "s1"}, STEP),
        "close s2": ({"do": "close", "session": "s2"}, STEP),
        "retract": ({"do": "retract"}, STEP),
        "retract, abort s1": ({"do": "retract"}, _abort("s1"), STEP),
        "evict": ({"do": "evict", "tokens": 2 * page}, STEP),
        "time passes": ({"do": "tick", "seconds": 1000}, STEP),
    }
    return {
        name: commands
        for name, commands in words.items()
        if all(command["do"] in offered for command in commands)
    }


@dataclass(frozen=True)
class Place:
    """The way to a class, and what its words need to know there."""

    commands: tuple[Command, ...] = ()
    depth: int = 0
    sent: int = 0
    """Requests so far."""
    whose: dict[str, str] = field(default_factory=dict)
    """The request in flight of a session; of ``""``, one without a session."""

    def spell(self, word: tuple[Command, ...]) -> list[Command] | None:
        """The word's commands here: requests numbered on, aborts aimed; ``None`` at nobody."""
        result = []
        sent = self.sent
        for command in word:
            if command["do"] == "submit":
                sent += 1
                result.append({**command, "rid": f"r{sent}"})
            elif command["do"] == "abort":
                if command["rid"] not in self.whose:
                    return None
                result.append({**command, "rid": self.whose[command["rid"]]})
            else:
                result.append(command)
        return result


def place(referee: Referee, depth: int) -> Place:
    """Where the referee is now."""
    snapshot = referee.snapshot
    whose = {
        sid: view["inflight"] for sid, view in snapshot["sessions"].items() if view["inflight"]
    }
    for rid, request in snapshot["requests"].items():
        if request["kind"] != "turn":
            whose.setdefault("", rid)
    commands = tuple(entry.command for entry in referee.log)
    return Place(commands, depth, sum(each["do"] == "submit" for each in commands), whose)


# Configurations ----------------------------------------------------------------

_tiny = EngineConfig(total_tokens=12, rows=3, max_running=2, context_len=16)

CONFIGS: dict[str, EngineConfig] = {
    "tiny": _tiny,
    "tiny-one": replace(_tiny, max_running=1, rows=2),
    "tiny-chunk": replace(_tiny, chunk=2),
    "tiny-draft": replace(_tiny, page_size=2, total_tokens=20, draft=3),
    "tiny-swa": replace(_tiny, window=2, swa_tokens=10, draft=4),
    "tiny-aligned": replace(_tiny, page_size=2, aligned_reuse=True),
    "tiny-wipe": replace(_tiny, page_size=2, total_tokens=16, retract="wipe"),
}
"""Pools so small that a few words fill them; together they can show every transition."""
