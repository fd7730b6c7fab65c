"""What every room of the engine uses: the configuration and the events."""
