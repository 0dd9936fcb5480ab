"""`make bench-spark`: the Spark source beside the same reader without ownership, a source in Python, and Spark's own sources."""
