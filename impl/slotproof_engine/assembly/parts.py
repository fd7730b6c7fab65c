"""Classes of an engine's components, replaceable by a mutant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slotproof_engine.kv.kv_cache import FULL, SWA, KVCache
from slotproof_engine.memory.pool import PageAllocator
from slotproof_engine.memory.rows import ReqToTokenPool
from slotproof_engine.memory.tree import PrefixTree
from slotproof_engine.models.model import StampModel
from slotproof_engine.models.paged_model import PagedModel
from slotproof_engine.models.transformer import PagedTransformer
from slotproof_engine.requests.req import Session
from slotproof_engine.requests.slot import SessionSlot
from slotproof_engine.scheduling.checker import MemoryChecker
from slotproof_engine.scheduling.intake import Intake
from slotproof_engine.scheduling.rounds import DecodeRounds
from slotproof_engine.scheduling.scheduler import Scheduler
from slotproof_engine.sessions.session_cache import SessionCache
from slotproof_engine.sessions.session_controller import SessionController
from slotproof_engine.sessions.turn_queue import TurnQueue


def _allocators() -> Mapping[str, type[PageAllocator]]:
    return {FULL: PageAllocator, SWA: PageAllocator}


def _models() -> Mapping[str, type[PagedModel]]:
    return {"stamps": StampModel, "transformer": PagedTransformer}


@dataclass(frozen=True)
class Parts:
    """Classes of the reference engine. A mutant replaces classes with ``dataclasses.replace``."""

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
