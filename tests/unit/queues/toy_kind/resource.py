"""spec.source.toy of a PartitionedQueue."""

from typing import Annotated

from pydantic import ConfigDict, Field

from baton.schema.shape import SourceFields, rule, rules


class ToySource(SourceFields):
    """A queue in the memory of one process."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!self.server.contains('@')",
                "spec.source.toy.server has no user: take it out",
                field=".server",
                reason="FieldValueForbidden",
            ),
        )
    )

    server: Annotated[str, Field(min_length=1, max_length=63)]
    """Its name."""
