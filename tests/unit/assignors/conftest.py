"""A slow machine is no failure: what an example may take is bounded by the test's own timeout."""

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
