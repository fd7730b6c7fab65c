"""The engine, put together of parts that a mutant may replace."""
