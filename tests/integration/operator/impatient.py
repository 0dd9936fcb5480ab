"""`baton operator`, which waits five seconds and no minute and a half until it says that something hangs."""

import sys

from baton.cli.own_assignors import use_own_assignors
from baton.controller.program import run
from tests.integration.operator.command_line import options

if __name__ == "__main__":
    use_own_assignors()
    run(options(sys.argv[1:], stuck_after=5.0))
