"""What a Redis server says of itself: which run it is, and what it keeps over a crash."""

from dataclasses import dataclass

from baton.queues.redis import server_answers

_FSYNC: dict[bytes | None, str] = {b"always": "always", b"everysec": "everysec", b"no": "no"}


@dataclass(frozen=True, slots=True)
class Server:
    """One run of a server, read from its INFO."""

    run_id: str
    replica: bool
    """It follows a primary, and takes no writes."""
    clustered: bool
    """It is a node of a Redis Cluster."""
    version: tuple[int, ...]
    append_only_file: bool
    fsync: str | None
    """When it has its append-only file written to the disk (appendfsync); None: it does not say."""
    replicas: int
    evicts: bool
    """Its maxmemory policy may throw away keys that have no time to live."""

    @classmethod
    def from_answers(cls, info: object, fsync: object) -> "Server":
        """Of INFO and of CONFIG GET appendfsync, which many do not let their users ask (None). Raises OddAnswerError."""
        lines = server_answers.info(info)
        return cls(
            run_id=server_answers.line(lines, "run_id", "[0-9A-Za-z]{1,64}"),
            replica=server_answers.line(lines, "role", "[a-z]{1,20}", "master") == "slave",
            clustered=server_answers.line(lines, "cluster_enabled", "[01]", "0") == "1",
            version=tuple(map(int, server_answers.line(lines, "redis_version", r"[0-9]{1,5}(\.[0-9]{1,5}){0,3}").split("."))),
            append_only_file=server_answers.line(lines, "aof_enabled", "[01]", "0") == "1",
            fsync=_FSYNC.get(server_answers.fields(2)(fsync)[1]) if fsync else None,
            replicas=int(server_answers.line(lines, "connected_slaves", "[0-9]{1,6}", "0")),
            evicts=server_answers.line(lines, "maxmemory_policy", "[a-z-]{1,40}", "noeviction").startswith("allkeys"),
        )

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
