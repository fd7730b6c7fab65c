"""Models that compute the next token: a sum of KV stamps, or a tiny transformer."""
