"""How engines are configured for clients: each has room for its sessions, and more rows than any
of them wants, for [idle sessions keep others waiting](../../docs/findings/idle-session-pins.md)."""

from __future__ import annotations

from dataclasses import replace

from slotproof.protocol.config import EngineConfig

CONTEXT = 96

_base = EngineConfig(total_tokens=8 * CONTEXT, rows=24, max_running=8, context_len=CONTEXT)

CONFIGS: dict[str, EngineConfig] = {
    "p4-overlap": replace(_base, page_size=4, overlap=True),
    "p1": _base,
    "p4-chunk-overlap": replace(_base, page_size=4, chunk=8, overlap=True),
    "p1-draft-overlap": replace(_base, draft=3, overlap=True),
}
"""By name; overlap scheduling is what SGLang runs by default."""
