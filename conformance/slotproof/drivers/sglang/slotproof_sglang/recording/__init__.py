"""Recorder: an event log from a running scheduler. See ../README.md."""
