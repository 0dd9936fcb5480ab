"""Runnel's assignor."""
