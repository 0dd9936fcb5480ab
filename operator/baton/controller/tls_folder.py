"""Where the operator has the files that URLs of queues may name for TLS."""

from pathlib import Path

TLS_FOLDER = Path("/etc/baton/tls")
"""In its pod. What may lie where in it: baton.queues.redis.url_files."""
