"""The SGLang driver and the recorder, for the environment of a build. See ../README.md."""
