"""Exact search: branch and bound with soft arc consistency."""
