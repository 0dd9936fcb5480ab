"""Baton's own assignor and its searches."""
