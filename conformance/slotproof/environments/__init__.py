"""Environments: the engine builds under test, made from recipes and kept in a cache.

Start with `families.py`; `making.py` carries the recipe of a family out.
"""
