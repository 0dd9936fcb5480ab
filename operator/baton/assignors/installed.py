"""Assignors that a user installed beside the operator. Each is loaded when somebody first asks for it."""

from collections.abc import Callable, Mapping

from baton.assignors.contract import checked, describe
from baton.assignors.request import Assignor

INSTALLED_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[a-z0-9]([-._a-z0-9]*[a-z0-9])?"
"""A regular expression for <domain>/<name>: nobody takes a slip in a built-in name for an installed assignor."""

Loader = Callable[[], Assignor]
"""Imports an installed assignor. May raise anything."""


class Installed:
    """The installed assignors by name. A broken one does not disturb the others."""

    def __init__(self, find: Callable[[], Mapping[str, Loader]]) -> None:
        self._find = find
        self._loaders: Mapping[str, Loader] | None = None
        self._known: dict[str, Assignor | str] = {}

    def loaders(self) -> Mapping[str, Loader]:
        """By name. The first call finds them."""
        if self._loaders is None:
            self._loaders = self._find()
        return self._loaders

    def get(self, name: str) -> Assignor | str:
        """The assignor of a name among `loaders`, held to the contract; a text says why it cannot be used."""
        if name not in self._known:
            self._known[name] = self._load(name)
        return self._known[name]

    def _load(self, name: str) -> Assignor | str:
        try:
            return checked(name, self.loaders()[name]())
        except (Exception, SystemExit) as error:
            return str(error) if isinstance(error, ValueError) else describe(error)
