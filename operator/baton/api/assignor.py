"""The names and options of assignors in a ConsumerGroup."""

from typing import Annotated

from pydantic import Field

from baton.assignors import BUILT_IN, INSTALLED_NAME
from baton.schema.shape import Rule, Shape, rule, rules

_OWN = INSTALLED_NAME.replace("\\", "\\\\")


def _known(names: tuple[str, ...], message: str) -> Rule:
    return rule(f"self in {list(names)} || self.matches('^{_OWN}$')", message, reason="FieldValueInvalid")


AssignorName = Annotated[
    str,
    Field(
        max_length=128,
        json_schema_extra=rules(
            _known(
                BUILT_IN,
                f"there is no such assignor: choose one of {', '.join(BUILT_IN)}, or name one of your own as <domain>/<name>, "
                "for example example.com/by-load",
            )
        ),
    ),
]
"""The name of a built-in assignor, or of a user's own."""

_WITHIN = tuple(name for name in BUILT_IN if name != "machine-room-nearby")


class AssignorOptions(Shape):
    """The options of the assignors that have any, as in `baton plan`."""

    virtual_nodes: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """For consistent-hash: the number of points on the ring per member. Default: 10."""
    partition_key: (
        Annotated[
            str,
            Field(
                min_length=1,
                max_length=512,
                json_schema_extra=rules(
                    rule(
                        "self.contains('{partition}')",
                        "spec.assignorOptions.partitionKey is the same for every partition: it needs {partition}",
                        reason="FieldValueInvalid",
                    ),
                    rule(
                        "self.replace('{partition}', '').replace('{queue}', '').matches('^[^{}]*$')",
                        "spec.assignorOptions.partitionKey: between braces there are {queue} and {partition} only",
                        reason="FieldValueInvalid",
                    ),
                ),
            ),
        ]
        | None
    ) = None
    """For consistent-hash: the text of a partition that is hashed, with {queue} and {partition}. Default: {queue}-{partition}."""
    rooms: (
        Annotated[
            tuple[Annotated[str, Field(min_length=1, max_length=63)], ...],
            Field(min_length=1, max_length=64, json_schema_extra={"x-kubernetes-list-type": "set"}),
        ]
        | None
    ) = None
    """For machine-room, which needs them: the zones whose partitions it assigns. Partitions elsewhere get no owner; one that has
    an owner keeps it."""
    within: (
        Annotated[
            str,
            Field(
                max_length=128,
                json_schema_extra=rules(
                    _known(
                        _WITHIN,
                        "spec.assignorOptions.within names no other assignor: choose one of "
                        f"{', '.join(_WITHIN)}, or name one of your own as <domain>/<name>",
                    )
                ),
            ),
        ]
        | None
    ) = None
    """For machine-room-nearby: the assignor inside each room. Default: average. The options of that assignor stand beside it."""

    def as_arguments(self) -> dict[str, object]:
        """The options by name, as the assignors' functions take them."""
        raw = {
            "virtualNodes": self.virtual_nodes,
            "partitionKey": self.partition_key,
            "rooms": None if self.rooms is None else frozenset(self.rooms),
            "within": self.within,
        }
        return {name: value for name, value in raw.items() if value is not None}


ROOMS_NEEDED = rule(
    "!(self.assignors.exists(one, one == 'machine-room') || self.assignors.exists(one, one == 'machine-room-nearby') && "
    "has(self.assignorOptions) && has(self.assignorOptions.within) && self.assignorOptions.within == 'machine-room') || "
    "has(self.assignorOptions) && has(self.assignorOptions.rooms)",
    "spec.assignorOptions.rooms is missing: machine-room gives out the partitions of these rooms only, so name them",
    reason="FieldValueRequired",
)
"""Of the spec."""
