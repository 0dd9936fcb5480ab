"""How the server says no: Status objects with the real one's reasons, codes and words."""

from collections.abc import Sequence

from tests.simulation.api_server.kinds import Kind
from tests.simulation.api_server.manifests import Json


class Refused(Exception):  # noqa: N818 -- an answer, not an error of the server's
    """The answer to a request that was not carried out."""

    def __init__(self, code: int, reason: str, message: str, details: Json | None = None) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    @property
    def status(self) -> Json:
        """As JSON."""
        made: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message}
        if self.reason:
            made["reason"] = self.reason
        if self.details is not None:
            made["details"] = self.details
        return {**made, "code": self.code}


def _details(kind: Kind, name: str, *, plural: bool = True, causes: Sequence[Json] = ()) -> Json:
    made: Json = {"name": name} if name else {}
    made |= {"causes": list(causes)} if causes else {}
    return {**made, **({"group": kind.group} if kind.group else {}), "kind": kind.plural if plural else kind.name}


def not_found(kind: Kind, name: str) -> Refused:
    return Refused(404, "NotFound", f'{kind.qualified} "{name}" not found', _details(kind, name))


def no_such_resource() -> Refused:
    return Refused(404, "NotFound", "the server could not find the requested resource", {})


def no_such_path() -> Refused:
    """The one refusal that is no Status."""
    return Refused(404, "", "404 page not found\n")


def already_exists(kind: Kind, name: str) -> Refused:
    return Refused(409, "AlreadyExists", f'{kind.qualified} "{name}" already exists', _details(kind, name))


def changed(kind: Kind, name: str) -> Refused:
    return conflict(kind, name, "the object has been modified; please apply your changes to the latest version and try again")


def another(kind: Kind, namespace: str | None, name: str, wanted: str, found: str) -> Refused:
    """The writer means another object of that name, or one that is gone."""
    key = "/".join(word for word in ("/registry", kind.group if kind.custom else "", kind.plural, namespace, name) if word)
    said = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
    return conflict(
        kind, name, f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {said}"
    )


def conflict(kind: Kind, name: str, why: str) -> Refused:
    return Refused(409, "Conflict", f'Operation cannot be fulfilled on {kind.qualified} "{name}": {why}', _details(kind, name))


def forbidden(kind: Kind, name: str, why: str, causes: Sequence[Json] = ()) -> Refused:
    named = f'{kind.qualified} "{name}"' if name else kind.qualified
    return Refused(403, "Forbidden", f"{named} is forbidden: {why}", _details(kind, name, causes=causes))


def terminating(kind: Kind, name: str, namespace: str) -> Refused:
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    return forbidden(kind, name, why, [cause])


def invalid(kind: Kind, name: str, mistakes: Sequence["Mistake"]) -> Refused:
    said = [str(mistake) for mistake in mistakes]
    what = f"{kind.name}.{kind.group}" if kind.group else kind.name
    message = f'{what} "{name}" is invalid: {said[0] if len(said) == 1 else "[" + ", ".join(said) + "]"}'
    causes = [mistake.cause for mistake in mistakes]
    return Refused(422, "Invalid", message, _details(kind, name, plural=False, causes=causes))


def no_version(kind: Kind, name: str) -> Refused:
    """A replace that has to say which version it replaces."""
    mistake = Mistake("metadata.resourceVersion", "Invalid", "must be specified for an update", "0")
    said = f'{kind.qualified} "{name}" is invalid: {mistake}'
    return Refused(422, "Invalid", said, _details(kind, name, causes=[mistake.cause]))


def bad_request(why: str) -> Refused:
    return Refused(400, "BadRequest", why)


def too_large(limit: int) -> Refused:
    return Refused(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def no_patch() -> Refused:
    """A JSON patch whose test fails, or whose path leads nowhere."""
    return Refused(422, "Invalid", "the server rejected our request due to an error in our request", {})


def too_large_to_store() -> Refused:
    return Refused(500, "", "etcdserver: request is too large")


def made_before() -> Refused:
    """A create of what says that it was there already."""
    return Refused(500, "", "resourceVersion should not be set on objects to be created")


def no_size() -> Refused:
    """A scale of what does not say its size."""
    said = 'Internal error occurred: the spec replicas field ".spec.replicas" does not exist'
    return Refused(500, "InternalError", said, {"causes": [{"message": said.partition(": ")[2]}]})


def expired(asked: int, oldest: int) -> Refused:
    return Refused(410, "Expired", f"too old resource version: {asked} ({oldest})")


def list_expired() -> Refused:
    """What is left of a list can no longer be read as it was when it was begun."""
    said = (
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the "
        "continue parameter."
    )
    return Refused(410, "Expired", said)


class Mistake:
    """One field that cannot be so."""

    def __init__(self, field: str, reason: str, detail: str, value: str | None = None) -> None:
        """`reason` as in FieldValueInvalid, without its FieldValue; `value` as the message shows it."""
        self._field = field
        self._reason = reason
        self._said = f"{_SPELT[reason]}{': ' + value if value is not None else ''}: {detail}"

    def __str__(self) -> str:
        return f"{self._field}: {self._said}"

    @property
    def cause(self) -> Json:
        return {"reason": f"FieldValue{self._reason}", "message": self._said, "field": self._field}


_SPELT = {"Invalid": "Invalid value", "TooLong": "Too long", "Forbidden": "Forbidden", "Required": "Required value"}
