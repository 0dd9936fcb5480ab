"""The pod's identity and settings, from its environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from re import ASCII, fullmatch

from baton.model.ids import MemberId, Uid

DEFAULT_LEDGER = Path("/etc/baton/assignments")
DEFAULT_GRACE = 30.0


@dataclass(frozen=True, slots=True)
class Pod:
    """The pod's identity (from the downward API) and where its ledger is mounted.

    ```python
    pod = Pod.from_environment()
    print(pod.namespace, pod.group, pod.name, pod.grace)
    ```
    """

    group: str
    """Name of the pod's ConsumerGroup."""
    name: MemberId
    namespace: str
    uid: Uid
    ledger: Path = DEFAULT_LEDGER
    grace: float = DEFAULT_GRACE
    """Seconds from SIGTERM to the end: terminationGracePeriodSeconds less the time of the preStop hook."""
    health_port: int | None = None
    """Port of the probes; None: probes are not served."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> "Pod":
        """Read BATON_GROUP, POD_NAME, POD_NAMESPACE and POD_UID, and the optional BATON_LEDGER, BATON_GRACE_SECONDS,
        BATON_PRESTOP_SECONDS and BATON_HEALTH_PORT.

        Raises ValueError that names the missing or invalid variable.
        """
        environment = os.environ if environment is None else environment
        missing = [name for name in ("BATON_GROUP", "POD_NAME", "POD_NAMESPACE", "POD_UID") if not environment.get(name)]
        if missing:
            raise ValueError(
                f"set {', '.join(missing)} in the container's env (the POD_ ones with fieldRef, see the example); without a "
                "cluster start the program by `baton dev run -- …`"
            )
        grace = _seconds(environment, "BATON_GRACE_SECONDS", DEFAULT_GRACE, "the pod's terminationGracePeriodSeconds, such as 30")
        prestop = _seconds(environment, "BATON_PRESTOP_SECONDS", 0.0, "the seconds of the pod's preStop hook, such as 10")
        port = environment.get("BATON_HEALTH_PORT") or None
        if port is not None and not (fullmatch(r"[0-9]{1,5}", port, ASCII) and 0 < int(port) < 65_536):
            raise ValueError(f"BATON_HEALTH_PORT is {port!r}: set it to the port that the pod's probes name, such as 8081")
        return cls(
            group=environment["BATON_GROUP"],
            name=MemberId(environment["POD_NAME"]),
            namespace=environment["POD_NAMESPACE"],
            uid=Uid(environment["POD_UID"]),
            ledger=Path(environment.get("BATON_LEDGER") or DEFAULT_LEDGER),
            grace=max(0.0, grace - prestop),
            health_port=None if port is None else int(port),
        )


def _seconds(environment: Mapping[str, str], name: str, default: float, meant: str) -> float:
    text = environment.get(name) or str(default)
    if not fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text, ASCII):
        raise ValueError(f"{name} is {text!r}: set it to {meant}")
    return float(text)
