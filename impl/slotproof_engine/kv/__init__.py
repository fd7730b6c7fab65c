"""KV cache: moves of memory, and the audits of pages."""
