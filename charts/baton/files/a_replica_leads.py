"""What `helm test` runs: asks the operator's replicas for their metrics until one of them leads."""

import re
import sys
import time
import urllib.request

BETWEEN = 1.0
"""Seconds between two questions; each may reach another replica."""


def answer(url: str) -> str:
    """Why that is not seen; empty: the replica that answered leads."""
    try:
        with urllib.request.urlopen(f"{url}/metrics", timeout=5) as page:
            leads = re.search(r"^baton_leader\{[^}]*\} 1(\.0)?$", page.read().decode(), re.MULTILINE)
    except (OSError, ValueError) as error:
        return f"no replica answers: {error}"
    return "" if leads else "of the replicas that answered none leads"


def main(url: str, seconds: float) -> str:
    """The same, after so many seconds at most."""
    until = time.monotonic() + seconds
    while (why := answer(url)) and time.monotonic() < until:
        time.sleep(BETWEEN)
    return why


if __name__ == "__main__":
    sys.exit(f"{sys.argv[1]}: {why}" if (why := main(sys.argv[1], float(sys.argv[2]))) else 0)
