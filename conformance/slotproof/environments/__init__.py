"""Environments: the engine builds under test, made by uv from recipes and kept in a cache.

Start with `families.py`; `making.py` carries out the recipe of a family.
"""
