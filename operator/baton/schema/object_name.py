"""Names of objects, and references to them."""

from typing import Annotated

from pydantic import Field

from baton.schema.shape import Shape

ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]


class SecretKey(Shape):
    """A key of a Secret in the queue's namespace; each use has a default of its own for the key."""

    name: ObjectName
    """The Secret's name."""
    key: Annotated[str, Field(min_length=1, max_length=253)]
    """The key in the Secret."""
