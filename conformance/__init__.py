"""The conformance suite: engines under test, oracles, the machine, traces, the command line."""
