"""vLLM's scheduler alone: `show --format script` puts `harness.py` and what it imports into one file."""
