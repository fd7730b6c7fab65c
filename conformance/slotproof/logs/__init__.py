"""Recorded event logs: written by any engine, judged by the spec without the engine."""
