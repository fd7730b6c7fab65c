"""Sessions: the life of their slots, and the queue of their turns."""
