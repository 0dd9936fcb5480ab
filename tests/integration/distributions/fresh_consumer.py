"""Run by the Python of a fresh environment: imports all that is installed of Baton, or consumes as a pod does."""

import importlib
import json
import os
import sys
from importlib.metadata import distributions
from pathlib import Path

import baton

FOR_PYTEST = "baton.testing.pytest_plugin"


def modules(without: tuple[str, ...]) -> None:
    """Import every module but those below these, and what pytest alone imports; say what came along."""
    top = Path(baton.__file__).parent
    files = (path.relative_to(top.parent).with_suffix("") for path in top.rglob("*.py"))
    names = sorted(".".join(file.parts).removesuffix(".__init__") for file in files)
    chosen = [name for name in names if not name.startswith((*without, FOR_PYTEST))]
    for name in chosen:
        importlib.import_module(name)
    installed = {distribution.name: distribution.version for distribution in distributions()}
    print(json.dumps({"imported": chosen, "loaded": sorted(sys.modules), "installed": installed}))


def consume(queue: str) -> None:
    """Prints the entries until it is asked to stop."""
    from baton.consumer import AssignmentSource, Consumer
    from baton.model import MemberId, Uid
    from baton.queues.redis import RedisReader

    url, pod, uid = os.environ["BATON_REDIS_URL"], MemberId(os.environ["POD_NAME"]), Uid(os.environ["POD_UID"])
    source = AssignmentSource(Path(os.environ["BATON_LEDGER"]), pod, uid)
    Consumer(lambda name: RedisReader(url, queue, uid), source, uid).run(lambda entry: print(entry.value.decode(), flush=True))


if __name__ == "__main__":
    modules(tuple(sys.argv[2:])) if sys.argv[1] == "modules" else consume(sys.argv[2])
