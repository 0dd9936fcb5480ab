"""spec.source of a PartitionedQueue: the fields of all kinds of queues, of which its type names one."""

from collections.abc import Iterator
from typing import Literal, TypeVar, cast

from pydantic import ConfigDict, Field, create_model

from baton.model.on_deadline import OnDeadline
from baton.queues.kind import QueueKind, load
from baton.queues.kinds import KINDS, kind
from baton.schema.shape import Rule, Shape, rule, rules
from baton.schema.source_fields import SourceFields

M = TypeVar("M", bound=Shape)


def _rules() -> Iterator[Rule]:
    for one in KINDS:
        here = f"spec.source.{one.field}"
        if one.needs:
            needed = (" and " if one.needs_all else " or ").join(f"{here}.{field}" for field in one.needs)
            yield rule(
                f"self.type != '{one.name}' || has(self.{one.field})",
                f"{here} is missing: spec.source.type {one.name} needs {needed}",
                field=f".{one.field}",
                reason="FieldValueRequired",
            )
        yield rule(
            f"self.type == '{one.name}' || !has(self.{one.field})",
            f"{here} belongs to spec.source.type {one.name} only: remove it, or change the type (one queue has one source)",
            field=f".{one.field}",
            reason="FieldValueForbidden",
        )
    yield rule(
        "self.type == oldSelf.type",
        "spec.source.type cannot change, for what is in the old source would be left behind: make a second "
        "PartitionedQueue and name it in the ConsumerGroup's spec.queues",
        field=".type",
        reason="FieldValueForbidden",
    )


def _model(one: QueueKind) -> type[SourceFields]:
    return cast("type[SourceFields]", load(one.resource))


def _with_the_fields_of_each_kind(model: type[M]) -> type[M]:
    """`type` names one kind, and each kind has a field for its own model."""
    names = Literal[tuple(one.name for one in KINDS)]  # type: ignore[valid-type] # for pydantic, which reads it when it runs
    about = model.model_fields["type"].description
    fields = {one.field: (_model(one) | None, Field(None, description=one.about)) for one in KINDS}
    made = create_model(model.__name__, __base__=model, __doc__=model.__doc__, type=(names, Field(description=about)), **fields)  # type: ignore[call-overload]
    return cast("type[M]", made)


@_with_the_fields_of_each_kind
class Source(Shape):
    """Exactly the source that `type` names."""

    model_config = ConfigDict(json_schema_extra=rules(*_rules()))

    type: str
    """Where the queue is. Cannot be changed."""

    @property
    def kind(self) -> QueueKind:
        """What its type says of itself."""
        return kind(self.type)

    @property
    def fields(self) -> SourceFields:
        """Those of its kind. Raises ValidationError where they are missing, and may not be."""
        given = getattr(self, self.kind.field)
        return given if isinstance(given, SourceFields) else _model(self.kind)()

    @property
    def on_deadline(self) -> OnDeadline:
        """What a hand-off does at its deadline, where the queue cannot fence."""
        return OnDeadline.WAIT if self.kind.fenced else self.fields.at_deadline()
