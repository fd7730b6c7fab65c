"""The spec documents: pages, pictures and a TLA+ module, generated from the spec."""
