"""The spec evaluated on plain integers: single steps, worlds of actors, bounded exploration."""
