"""Small helpers that know nothing of graphical models."""
