"""Reference engine: a small paged-KV serving engine with session slots, on torch.

Start with :mod:`slotproof_engine.sessions.session_cache` (life of the slots), then read
:mod:`slotproof_engine.kv.kv_cache` (moves of memory) and
:mod:`slotproof_engine.scheduling.scheduler` (batching). The engine imports neither the spec nor the
suite.
"""

from slotproof_engine.assembly.engine import ReferenceEngine
from slotproof_engine.base.config import EngineConfig
from slotproof_engine.factory import build
from slotproof_engine.models.model import expected_next

__all__ = ["EngineConfig", "ReferenceEngine", "build", "expected_next"]
