"""Models that compute the next token: one sums KV stamps, one is a tiny transformer."""
