"""Campaigns: rounds of guided tasks, in a journal that any number of machines may add to."""
