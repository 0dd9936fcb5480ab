"""What programs of tests read of the options of `baton operator`."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from baton.controller.logs import set_up
from baton.controller.program import Options
from baton.kube.elector import Terms


def options(arguments: Sequence[str], **others: Any) -> Options:
    """Sets up the log, too."""
    reader = argparse.ArgumentParser()
    for name in ("kubeconfig", "lease-namespace", "lease-name", "identity", "metrics-address", "log-format"):
        reader.add_argument(f"--{name}", required=True)
    reader.add_argument("--namespace", action="append", required=True)
    reader.add_argument("--metrics-port", type=int, required=True)
    plain = Terms()
    for name, seconds in (
        ("lease-duration", plain.duration),
        ("renew-deadline", plain.renew_deadline),
        ("retry-period", plain.retry),
    ):
        reader.add_argument(f"--{name}", type=float, default=seconds)
    told = reader.parse_args(arguments)
    set_up("info", told.log_format)
    return Options(
        kubeconfig=Path(told.kubeconfig),
        namespaces=tuple(told.namespace),
        lease_namespace=told.lease_namespace,
        lease_name=told.lease_name,
        identity=told.identity,
        terms=Terms(told.lease_duration, told.renew_deadline, told.retry_period),
        metrics_address=told.metrics_address,
        metrics_port=told.metrics_port,
        **others,
    )
