"""The spec as text for readers: formulas, names and lifecycles."""
