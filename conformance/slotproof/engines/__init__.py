"""Engines under test. An engine runs in this process, or behind a pipe in another process."""
