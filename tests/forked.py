"""A process that a test forks from itself."""

import os
import pickle
from collections.abc import Callable


def in_a_fork(function: Callable[[], list[object]]) -> list[object]:
    """What the function returns in a forked process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, pickle.dumps(function()))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer: list[object] = pickle.loads(pipe.read())
    os.waitpid(child, 0)
    return answer
