"""Memory by number: the pages' free list, rows of `req_to_token`, the prefix tree, stamps."""
