"""Puts this folder on the import path, so that every room's tests can share ``core_cases``."""
