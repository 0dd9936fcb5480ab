"""Under `baton dev` there are no Secrets and no kubectl: nothing is said of them there."""

import os

from baton.model.names import DEV_QUEUE_VARIABLE


def dev_queue() -> str | None:
    """None: this process belongs to no `baton dev`."""
    return os.environ.get(DEV_QUEUE_VARIABLE) or None
