"""Imports of optional distributions, which are the extras of baton-consumer."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, distribution


class MissingExtraError(ModuleNotFoundError):
    """An optional distribution is missing. The message has the command that installs it."""


@contextmanager
def extra(name: str) -> Iterator[None]:
    """A context for imports. Raises MissingExtraError for a missing or outdated module, unless the module is Baton's."""
    try:
        yield
    except MissingExtraError:
        raise
    except ImportError as error:
        if (error.name or "").partition(".")[0] in ("", "baton"):
            raise
        raise MissingExtraError(f"{error}: {cure(name)}", name=error.name) from None


def cure(name: str) -> str:
    """Return the command that installs the extra's packages by their names: Baton's packages are on no index, so anyone could
    register their names. The command is followed by the path or URL that this installation came from, if known."""
    try:
        ours = distribution("baton-consumer")
    except PackageNotFoundError:  # a source tree on the path
        return f"install what baton-consumer's extra {name} needs"
    needs = [line.partition(";") for line in ours.requires or ()]
    wanted = [what.strip() for what, _, marker in needs if re.search(rf"extra\s*==\s*['\"]{name}['\"]", marker)]
    origins = [json.loads(one.read_binary()).get("url") for one in ours.files or () if one.name == "direct_url.json"]
    packages = " ".join(f"'{one}'" for one in wanted)
    return f"pip install {packages}" + "".join(f" (baton-consumer itself came from {origin})" for origin in origins)
