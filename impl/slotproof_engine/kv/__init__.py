"""The KV cache: what moves memory, and the audits of its pages."""
