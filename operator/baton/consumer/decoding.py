"""Handlers of values: the first argument is annotated with a pydantic model or a dataclass, which is made of an entry's value."""

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
"""What may stay unresolved: it is imported for a type checker only, and nothing is made of it."""


@dataclass(frozen=True, slots=True)
class DecodingHandler:
    """A handler of values, as one of an entry or a batch that has them."""

    call: Handler
    decode: Callable[[Any], object]
    """Makes the model of bytes or a text (JSON), or of what a deserializer returned. Raises pydantic's ValidationError."""
    batch: bool
    """It takes a list of models."""
    takes_entry: bool
    """Its second argument is the entry, or the batch."""

    def __call__(self, one: Any) -> object:
        return self.call(one)

    def see_fits(self, *, batch: bool, manual_ack: bool) -> None:
        """Raises TypeError for what the consumer would never hand over, or the program never acknowledge."""
        if self.batch and not batch:
            raise TypeError("the handler takes a list of models: set max_entries too, or annotate its argument with one model")
        if batch and not self.batch:
            raise TypeError("the handler takes one model, and max_entries is set: annotate its argument with a list of models")
        if manual_ack and not self.takes_entry:
            raise TypeError("with manual_ack the handler needs the entry: give it a second argument, entry (or batch)")


def decoding(handler: UserHandler) -> Handler | DecodingHandler:
    """By the annotation of the handler's first argument; the same handler where that is an entry or a batch, or it has none.
    Raises TypeError for what it cannot be, and MissingExtraError for a model without pydantic."""
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
    """Those that can be given by place; none of what has no signature, or cannot be called."""
    try:
        found = _by_place(inspect.signature(handler))
    except (TypeError, ValueError):
        return []
    if not any(isinstance(one.annotation, str) for one in found[:2]):
        return found
    try:
        return _by_place(inspect.signature(handler, eval_str=True))
    except Exception as problem:  # of any kind, from what is written there
        if found[0].annotation is inspect.Parameter.empty or _BY_NAME.search(str(found[0].annotation)):
            return found
        raise TypeError(
            f"the annotations of the handler {handler!r} cannot be resolved: {problem}; define or import what they name at the "
            "top of its module, and not under TYPE_CHECKING"
        ) from None


def _by_place(signature: inspect.Signature) -> list[inspect.Parameter]:
    return [one for one in signature.parameters.values() if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]


def _members(annotation: Any) -> list[Any]:
    """Of a union, each but None; of a generic class the class, but a list with what is in it."""
    annotation = getattr(annotation, "__value__", annotation)  # of `type Order = …`
    origin = get_origin(annotation)
    if origin is Annotated:
        return _members(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return [member for one in get_args(annotation) if one is not NoneType for member in _members(one)]
    return [annotation if origin is None or origin in _LISTS else origin]


def _is_model(one: Any) -> bool:
    pydantic = sys.modules.get("pydantic")  # where a program has a model of it, it is imported
    of_pydantic = pydantic is not None and isinstance(one, type) and issubclass(one, pydantic.BaseModel)
    return of_pydantic or (isinstance(one, type) and is_dataclass(one) and not issubclass(one, Entry))


def _is_entry(one: Any) -> bool:
    if isinstance(one, type):
        return issubclass(one, (Entry, Batch))
    return isinstance(one, (str, ForwardRef)) and _BY_NAME.search(str(one)) is not None


def _may_be_entries(one: Any) -> bool:
    """Also what says nothing, and a protocol or a type variable."""
    if get_origin(one) in _LISTS:
        return all(_may_be_entries(member) for element in get_args(one) for member in _members(element))
    says_nothing = one in (inspect.Parameter.empty, Any, object, bytes, *_LISTS)
    return says_nothing or _is_entry(one) or isinstance(one, TypeVar) or getattr(one, "_is_protocol", False)


def _decoder(model: Any) -> Callable[[Any], object]:
    with extra("pydantic"):
        from pydantic import PydanticUserError, TypeAdapter
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(model)
        adapter.rebuild(raise_errors=True)
    except (PydanticUserError, NameError) as problem:
        raise TypeError(f"no value can be made {_named(model)}: {problem}") from None

    def decode(value: Any) -> object:
        return adapter.validate_json(value) if isinstance(value, (bytes, str)) else adapter.validate_python(value)

    return decode


def _named(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) and not get_args(annotation) else str(annotation)
