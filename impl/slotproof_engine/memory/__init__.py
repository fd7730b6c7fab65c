"""Bookkeeping of memory: free list of pages, rows of `req_to_token`, prefix tree, page stamps."""
