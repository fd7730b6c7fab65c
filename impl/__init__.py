"""The reference engine: a small paged-KV serving engine with session slots, on torch.

Start with :mod:`slotproof.impl.session_cache` (the slots' life), then read
:mod:`slotproof.impl.kv_cache` (what moves memory) and
:mod:`slotproof.impl.scheduler` (who runs when). Imports nothing of the spec and
nothing of the suite: they look at it from outside.
"""

from slotproof.impl.config import EngineConfig
from slotproof.impl.engine import ReferenceEngine
from slotproof.impl.factory import build
from slotproof.impl.model import expected_next

__all__ = ["EngineConfig", "ReferenceEngine", "build", "expected_next"]
