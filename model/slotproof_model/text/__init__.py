"""The spec as text: formulas, names and lives for readers."""
