"""Environments: the engine builds under test, made from recipes and kept in a cache.

Start with `recipes.py`; `making.py` carries a recipe out.
"""
