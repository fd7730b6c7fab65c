"""Recorder that writes the event log of a running scheduler. See ../README.md."""
