"""The spec on plain integers: one step, a world of actors, all states within bounds."""
