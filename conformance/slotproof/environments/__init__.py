"""Environments: the engine builds under test, made by uv from recipes and stored in a cache.

Start with `families.py`. `making.py` makes the environment of a release from its family's recipe.
"""
