"""Environments: the engine builds under test, made by uv from recipes and stored in a cache.

Start with `families.py`. `making.py` makes a release's environment from its engine family's recipe.
"""
