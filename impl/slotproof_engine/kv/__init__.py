"""KV cache: transfers of memory between owners, and the audit of pages."""
