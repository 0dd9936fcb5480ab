"""Assignors of users: functions that installed packages declare as entry points of the group `baton.assignors`."""

from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from re import fullmatch

from baton.assignors import INSTALLED_NAME, Assignor, install
from baton.assignors.registry import Loader
from baton.assignors.request import describe
from baton.model.options import function

GROUP = "baton.assignors"


def use_own_assignors() -> None:
    """Make them available by name. Packages are searched at the first name that is not built in, and imported when used."""
    install(_find)


def _find() -> Mapping[str, Loader]:
    found: dict[str, list[EntryPoint]] = defaultdict(list)
    for point in entry_points(group=GROUP):
        if point not in found[point.name]:
            found[point.name].append(point)
    return {name: partial(_load, points) for name, points in found.items()}


def _load(points: list[EntryPoint]) -> Assignor:
    point, package = points[0], _package(points[0])
    if fullmatch(INSTALLED_NAME, point.name) is None:
        raise ValueError(
            f"the entry point {point.name!r} of {package} is not named <domain>/<name>: rename it, for example to "
            "example.com/by-lag"
        )
    if len(points) > 1:
        raise ValueError(f"{' and '.join(sorted(map(_package, points)))} both declare it: uninstall one of them")
    try:
        loaded: object = point.load()
    except (Exception, SystemExit) as error:
        raise ValueError(
            f"its entry point {point.value} of {package} cannot be loaded ({describe(error)}): fix or reinstall that package"
        ) from error
    if not callable(loaded):
        raise ValueError(f"its entry point {point.value} of {package} is not a function: name a function that takes a Request")
    try:
        function(f"its entry point {point.value} of {package}", loaded, "request")
    except TypeError as error:
        raise ValueError(str(error)) from None
    assignor: Assignor = loaded
    return assignor


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else "an unnamed package"
