"""Memory by number: free list of pages, rows of `req_to_token`, prefix tree, stamps."""
