"""Handlers of values: the first argument is annotated with a pydantic model or a dataclass, made from the entry's value."""

import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, ForwardRef, TypeVar, Union, cast, get_args, get_origin

from baton.consumer.entry import Batch
from baton.consumer.handler import Handler, UserHandler, is_coroutine_function
from baton.model.extras import extra
from baton.queues.entry import Entry

_LISTS = (list, Sequence, Collection, Iterable)
_BY_NAME = re.compile(r"\b(Entry|HeldEntry|Batch)\b")
"""Annotations that may stay unresolved: they are imported for type checkers only, and no value is converted to them."""


@dataclass(frozen=True, slots=True)
class DecodingHandler:
    """A handler of values, wrapped as a handler of an entry or a batch."""

    call: Handler
    decode: Callable[[Any], object]
    """Converts bytes or a string (JSON), or the result of a deserializer, to the model. Raises pydantic's ValidationError."""
    batch: bool
    """Whether the handler takes a list of models."""
    takes_entry: bool
    """Whether the handler's second argument is the entry, or the batch."""

    def __call__(self, one: Any) -> object:
        return self.call(one)

    def check_options(self, *, batch: bool, manual_ack: bool) -> None:
        """Raises TypeError if the handler's arguments do not fit the options of the consumer."""
        if self.batch and not batch:
            raise TypeError("the handler takes a list of models: set max_entries too, or annotate its argument with one model")
        if batch and not self.batch:
            raise TypeError("the handler takes one model, and max_entries is set: annotate its argument with a list of models")
        if manual_ack and not self.takes_entry:
            raise TypeError("with manual_ack the handler needs the entry: give it a second argument, entry (or batch)")


def decoding(handler: UserHandler) -> Handler | DecodingHandler:
    """Wrap a handler whose first argument is annotated with a model. Return other handlers, of entries or batches or without
    annotations, unchanged. Raises TypeError for unusable annotations, and MissingExtraError for a model without pydantic."""
    if isinstance(handler, DecodingHandler):
        return handler
    parameters = _parameters(handler)
    annotation = parameters[0].annotation if parameters else Any
    batch = get_origin(annotation) in _LISTS
    element = (get_args(annotation) or (Any,))[0] if batch else annotation
    if not any(_is_model(one) for one in _members(element)):
        if not all(_may_be_entries(one) for one in _members(element)):
            raise TypeError(
                f"the first argument of the handler {handler!r} is annotated with {_named(annotation)}: annotate it with Entry "
                "to get the entry, or with a pydantic model or a dataclass (with max_entries a list of them) to get its value"
            )
        return cast(Handler, handler)
    second = parameters[1] if len(parameters) > 1 else None
    takes_entry = second is not None and (second.default is second.empty or any(map(_is_entry, _members(second.annotation))))
    if takes_entry and second is not None and not all(_may_be_entries(one) for one in _members(second.annotation)):
        raise TypeError(
            f"the second argument of the handler {handler!r} is annotated with {_named(second.annotation)}, and it gets the "
            "entry (or batch): annotate it with Entry, or bind what it is to be by functools.partial"
        )

    def arguments(one: Any) -> Sequence[Any]:
        value = [entry.value for entry in one] if batch else one.value
        return (value, one) if takes_entry else (value,)

    if is_coroutine_function(handler, *("value", "entry")[: 1 + takes_entry]):

        async def call(one: Any) -> None:
            ended: Any = handler(*arguments(one))
            await ended

        return DecodingHandler(call, _decoder(element), batch, takes_entry)
    return DecodingHandler(lambda one: handler(*arguments(one)), _decoder(element), batch, takes_entry)


def _parameters(handler: UserHandler) -> list[inspect.Parameter]:
    """Return the positional parameters; empty if the handler has no signature or is not callable."""
    try:
        found = _positional(inspect.signature(handler))
    except (TypeError, ValueError):
        return []
    if not any(isinstance(one.annotation, str) for one in found[:2]):
        return found
    try:
        return _positional(inspect.signature(handler, eval_str=True))
    except Exception as problem:  # evaluating annotations may raise anything
        if found[0].annotation is inspect.Parameter.empty or _BY_NAME.search(str(found[0].annotation)):
            return found
        raise TypeError(
            f"the annotations of the handler {handler!r} cannot be resolved: {problem}; define or import their names at the top "
            "of its module, and not under TYPE_CHECKING"
        ) from None


def _positional(signature: inspect.Signature) -> list[inspect.Parameter]:
    return [one for one in signature.parameters.values() if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]


def _members(annotation: Any) -> list[Any]:
    """Return the members of a union without None, the class of a generic class, or else the annotation itself. Lists keep their
    element types."""
    annotation = getattr(annotation, "__value__", annotation)  # of `type Order = …`
    origin = get_origin(annotation)
    if origin is Annotated:
        return _members(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return [member for one in get_args(annotation) if one is not NoneType for member in _members(one)]
    return [annotation if origin is None or origin in _LISTS else origin]


def _is_model(one: Any) -> bool:
    pydantic = sys.modules.get("pydantic")  # a program that has a pydantic model has imported it
    of_pydantic = pydantic is not None and isinstance(one, type) and issubclass(one, pydantic.BaseModel)
    return of_pydantic or (isinstance(one, type) and is_dataclass(one) and not issubclass(one, Entry))


def _is_entry(one: Any) -> bool:
    if isinstance(one, type):
        return issubclass(one, (Entry, Batch))
    return isinstance(one, (str, ForwardRef)) and _BY_NAME.search(str(one)) is not None


def _may_be_entries(one: Any) -> bool:
    """Whether an argument with this annotation may get entries: also unspecific types, protocols and type variables."""
    if get_origin(one) in _LISTS:
        return all(_may_be_entries(member) for element in get_args(one) for member in _members(element))
    unspecific = one in (inspect.Parameter.empty, Any, object, bytes, *_LISTS)
    return unspecific or _is_entry(one) or isinstance(one, TypeVar) or getattr(one, "_is_protocol", False)


def _decoder(model: Any) -> Callable[[Any], object]:
    with extra("pydantic"):
        from pydantic import PydanticUserError, TypeAdapter
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(model)
        adapter.rebuild(raise_errors=True)
    except (PydanticUserError, NameError) as problem:
        raise TypeError(f"values cannot be converted to {_named(model)}: {problem}") from None

    def decode(value: Any) -> object:
        return adapter.validate_json(value) if isinstance(value, (bytes, str)) else adapter.validate_python(value)

    return decode


def _named(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) and not get_args(annotation) else str(annotation)
