"""The spec in TLA+, for TLC."""
