"""Which class each component of an engine is made from: where a mutant puts its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slotproof.impl.checker import MemoryChecker
from slotproof.impl.intake import Intake
from slotproof.impl.kv_cache import FULL, SWA, KVCache
from slotproof.impl.model import StampModel
from slotproof.impl.paged_model import PagedModel
from slotproof.impl.pool import PageAllocator
from slotproof.impl.req import Session
from slotproof.impl.rounds import DecodeRounds
from slotproof.impl.rows import ReqToTokenPool
from slotproof.impl.scheduler import Scheduler
from slotproof.impl.session_cache import SessionCache
from slotproof.impl.session_controller import SessionController
from slotproof.impl.slot import SessionSlot
from slotproof.impl.transformer import PagedTransformer
from slotproof.impl.tree import PrefixTree
from slotproof.impl.turn_queue import TurnQueue


def _allocators() -> Mapping[str, type[PageAllocator]]:
    return {FULL: PageAllocator, SWA: PageAllocator}


def _models() -> Mapping[str, type[PagedModel]]:
    return {"stamps": StampModel, "transformer": PagedTransformer}


@dataclass(frozen=True)
class Parts:
    """The reference's own classes; ``dataclasses.replace`` makes another engine."""

    allocators: Mapping[str, type[PageAllocator]] = field(default_factory=_allocators)
    rows: type[ReqToTokenPool] = ReqToTokenPool
    tree: type[PrefixTree] = PrefixTree
    kv: type[KVCache] = KVCache
    slot: type[SessionSlot] = SessionSlot
    session: type[Session] = Session
    cache: type[SessionCache] = SessionCache
    controller: type[SessionController] = SessionController
    scheduler: type[Scheduler] = Scheduler
    rounds: type[DecodeRounds] = DecodeRounds
    models: Mapping[str, type[PagedModel]] = field(default_factory=_models)
    checker: type[MemoryChecker] = MemoryChecker
    queue: type[TurnQueue] = TurnQueue
    intake: type[Intake] = Intake
