"""`baton operator`, which waits five seconds and no minute and a half until it says that something hangs."""

import argparse
from pathlib import Path

from baton.cli.own_assignors import use_own_assignors
from baton.controller.logs import set_up
from baton.controller.program import Options, run


def main() -> None:
    reader = argparse.ArgumentParser()
    for name in ("kubeconfig", "lease-namespace", "lease-name", "namespace", "identity", "metrics-address", "log-format"):
        reader.add_argument(f"--{name}", required=True)
    reader.add_argument("--metrics-port", type=int, required=True)
    told = reader.parse_args()
    set_up("info", told.log_format)
    use_own_assignors()
    run(
        Options(
            kubeconfig=Path(told.kubeconfig),
            namespaces=(told.namespace,),
            lease_namespace=told.lease_namespace,
            lease_name=told.lease_name,
            identity=told.identity,
            metrics_address=told.metrics_address,
            metrics_port=told.metrics_port,
            stuck_after=5.0,
        )
    )


if __name__ == "__main__":
    main()
