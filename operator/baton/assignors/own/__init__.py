"""Baton's own assignor, and the searches for its answer."""
