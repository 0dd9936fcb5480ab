"""Baton: who of a fleet owns which partition of a queue, and how it changes hands."""

__version__ = "0.1.0"
