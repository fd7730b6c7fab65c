"""Parts used by every package of the engine: the configuration and the events."""
