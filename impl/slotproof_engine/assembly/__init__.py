"""Assembly of the engine from parts. A mutant may replace any part."""
