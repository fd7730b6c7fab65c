"""Modules that all packages use: bounds, files, processes, the terminal."""
