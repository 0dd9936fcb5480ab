"""`baton operator` that says after 5 seconds, not 90, that something hangs, and lists again every 5 seconds, not 600."""

import sys

from baton.cli.own_assignors import use_own_assignors
from baton.controller import relists
from baton.controller.program import run
from tests.integration.operator.command_line import options

if __name__ == "__main__":
    relists.EVERY = 5.0
    use_own_assignors()
    run(options(sys.argv[1:], stuck_after=5.0))
