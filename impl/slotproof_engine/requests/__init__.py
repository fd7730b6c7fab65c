"""Requests, sessions' slots, batches of requests and what a batch computed."""
