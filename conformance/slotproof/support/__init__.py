"""Modules that every room uses: bounds, files, processes, the terminal."""
