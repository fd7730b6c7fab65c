"""The reference engine: a small paged-KV serving engine with session slots, on torch.

Start with :mod:`slotproof_engine.sessions.session_cache` (the slots' life), then read
:mod:`slotproof_engine.kv.kv_cache` (what moves memory) and
:mod:`slotproof_engine.scheduling.scheduler` (who runs when). Imports nothing of the spec and
nothing of the suite: they look at it from outside.
"""

from slotproof_engine.assembly.engine import ReferenceEngine
from slotproof_engine.base.config import EngineConfig
from slotproof_engine.factory import build
from slotproof_engine.models.model import expected_next

__all__ = ["EngineConfig", "ReferenceEngine", "build", "expected_next"]
