"""The spec documents, all generated from the spec: report pages, pictures and a TLA+ module."""
