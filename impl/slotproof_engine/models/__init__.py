"""Models of tokens: sums of stamps, or a tiny transformer."""
