"""What a Redis server says of itself: which run it is, and what it keeps over a crash."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Server:
    """One run of a server, read from its INFO."""

    run_id: str
    replica: bool
    """It follows a primary, and takes no writes."""
    version: tuple[int, ...]
    append_only_file: bool
    fsync: str | None
    """When it has its append-only file written to the disk (appendfsync); None: it does not say."""
    replicas: int
    evicts: bool
    """Its maxmemory policy may throw away keys that have no time to live."""

    @classmethod
    def from_info(cls, info: Mapping[str, Any], fsync: str | None = None) -> "Server":
        return cls(
            run_id=str(info["run_id"]),
            replica=info.get("role") == "slave",
            version=tuple(int(part) for part in str(info["redis_version"]).split(".") if part.isdigit()),
            append_only_file=bool(int(info.get("aof_enabled", 0))),
            fsync=fsync,
            replicas=int(info.get("connected_slaves", 0)),
            evicts=str(info.get("maxmemory_policy", "noeviction")).startswith("allkeys"),
        )

    @property
    def can_wait_for_disk(self) -> bool:
        """WAITAOF came with 7.2. Before it, `appendfsync always` is what makes a write durable before it is answered."""
        return self.append_only_file and self.version >= (7, 2)

    def warnings(self, place: str) -> tuple[str, ...]:
        """What its configuration puts at risk, each a sentence with the cure."""
        found = []
        if not self.append_only_file and self.replicas == 0:
            found.append(
                f"{place} has no append-only file and no replica: a restart loses entries and acknowledgements "
                "since its last snapshot. Set appendonly yes."
            )
        elif self.append_only_file and self.fsync not in (None, "always"):
            last = "seconds" if self.fsync == "everysec" else "half minute"
            found.append(
                f"{place} has appendfsync {self.fsync}: a crash of its machine, or of Redis alone while the disk is slow, loses "
                f"entries and acknowledgements of the last {last} that were answered already. Set appendfsync always."
            )
        if self.evicts:
            found.append(f"{place} may evict entries that nobody has read. Set maxmemory-policy noeviction.")
        return tuple(found)
