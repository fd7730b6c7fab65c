"""Requests, session slots, batches of requests and their results."""
