"""A queue on Redis streams for the driver of a Spark query: it logs ranges and finishes them, and executors read them.

Every request covers many partitions and carries the query's number: a later query fences earlier ones.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from redis.exceptions import NoScriptError, ResponseError

from baton.queues.logged_ranges import (
    Ahead,
    AheadAnswer,
    AheadRequest,
    FinishAnswer,
    Finished,
    Gone,
    LaterQuery,
    LogAnswer,
    Logged,
    PartitionBounds,
    Paused,
    RangeToFinish,
    RangeToLog,
    RangeToSetAside,
    SetAside,
    SetAsideAnswer,
    Stale,
    Unlogged,
)
from baton.queues.protocol import QueueUnreachable
from baton.queues.redis import scripts
from baton.queues.redis.connection import CONNECTION_OPTIONS, Command, ask, client
from baton.queues.redis.explanations import absent, explained
from baton.queues.redis.keys import ANY_PARTITION, PartitionKeys, partition_keys, queue_key
from baton.queues.redis.scripts import Script
from baton.queues.redis.url import Address, RedisUrl, read
from baton.queues.redis.url_files import Credentials
from baton.queues.redis.wakeup import ONLY_GRANTS, Wakeup

MOST = 128
"""Partitions per script. A script that has done much work stops early."""
_SCRIPTS = 16
"""Scripts per round trip."""

Run = tuple[int, Sequence[str | int]]
"""A partition, and the script's arguments for it."""


def keys_of_ranges(keys: PartitionKeys) -> tuple[str, ...]:
    """Return the keys of a partition that these scripts use. Each script also gets `never` once."""
    return keys.owner, keys.stream, keys.progress, keys.refused, keys.dead, keys.marks


def server_address(url: RedisUrl) -> Mapping[str, object]:
    """Return the server's address for JSON. It contains the password; files with credentials are read now. Raises
    CredentialFileError."""
    options: Mapping[str, Any] = {**CONNECTION_OPTIONS, **url.options}
    user = password = None
    if url.user is not None or url.password is not None or url.files:
        *named, password = Credentials(url).get_credentials()
        user = named[0] if named else None
    mode = "single"
    hosts: Sequence[Address] = ()
    if url.sentinels is not None:
        mode, hosts = "sentinel", url.sentinels.hosts
    elif url.cluster is not None:
        mode, hosts = "cluster", url.cluster.hosts
    elif "host" in options:
        hosts = ((options["host"], options["port"]),)
    asks = url.sentinels is not None and url.sentinels.password
    return {
        "mode": mode,
        "nodes": [_node(host) for host in hosts],
        "service": url.sentinels.service if url.sentinels is not None else None,
        "db": options.get("db", 0),
        "user": user,
        "password": password,
        "sentinelUser": user if asks else None,
        "sentinelPassword": password if asks else None,
        "tls": _tls(options) if url.scheme.startswith("rediss") else None,
        "unix": options.get("path"),
        "timeoutSeconds": options["socket_timeout"],
        "connectSeconds": options["socket_connect_timeout"],
        "clientName": options.get("client_name"),
    }


def _node(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _tls(options: Mapping[str, Any]) -> Mapping[str, object]:
    verify = options.get("ssl_cert_reqs", "required") != "none"
    return {
        "ca": options.get("ssl_ca_certs"),
        "caData": options.get("ssl_ca_data"),
        "caFolder": options.get("ssl_ca_path"),
        "cert": options.get("ssl_certfile"),
        "key": options.get("ssl_keyfile"),
        "verify": verify,
        "verifyHost": verify and bool(options.get("ssl_check_hostname", True)),
    }


class RedisRanges:
    """`LoggedRanges` (baton.queues.logged_ranges) of one queue (`namespace/name`). Every method raises QueueUnreachable also if
    the queue or a partition does not exist.
    """

    sizes_known = True
    sets_aside = True
    log_id = ""

    def __init__(self, url: str, queue: str, group: str = "") -> None:
        """As `OpenSparkSide`. The group has no effect."""
        self._queue = queue
        self._url = read(url, own=True)
        self._client = client(self._url, queue_key(queue))
        self._wakeup = Wakeup(self._url, queue_key(queue))
        self._waits_from: dict[int, str] = {}
        """By partition that was read to its end, the id of its last wake-up."""

    def begin(self) -> int:
        everything = range(self.partitions())
        with explained(self._url, self._queue):
            with self._client.pipeline(transaction=False) as pipe:
                for partition in everything:
                    pipe.hget(self._keys(partition).progress, "query")
                known = max((int(number) for number in pipe.execute() if number), default=0)
            answer = scripts.BEGIN.run(self._client, [queue_key(self._queue)], [known])
        if answer[0] != b"OK":
            raise self._absent("queue")
        number = int(answer[1])
        self.fence(number, everything)
        return number

    def fence(self, query: int, partitions: Sequence[int]) -> int:
        answers = self._run(scripts.FENCE, [(partition, (query,)) for partition in partitions])
        return max((int(answer[1]) for answer in answers if answer[0] == "QUERY"), default=query)

    def partitions(self) -> int:
        """Return the number of partitions; during a change the larger number."""
        with explained(self._url, self._queue):
            found: Any = self._client.hmget(queue_key(self._queue), "ready", "partitions")
        if not all(found):
            raise self._absent("queue")
        return int(found[1])

    def check(self) -> None:
        self.positions()

    def positions(self) -> Mapping[int, PartitionBounds]:
        everything = range(self.partitions())
        answers = self._run(scripts.BOUNDS, [(partition, ()) for partition in everything])
        return {
            partition: PartitionBounds(int(committed), int(first) - 1, int(last))
            for partition, (_, committed, first, last) in zip(everything, answers, strict=True)
        }

    def ahead(self, query: int, requests: Sequence[AheadRequest]) -> list[AheadAnswer]:
        runs = [(one.partition, (query, one.uid, one.epoch, one.start, one.most_entries, one.most_bytes)) for one in requests]
        return [self._ahead(request, answer) for request, answer in zip(requests, self._run(scripts.AHEAD, runs), strict=True)]

    def log(self, query: int, ranges: Sequence[RangeToLog]) -> list[LogAnswer]:
        """See LoggedRanges. Also finishes everything before their starts."""
        runs = [(one.partition, (query, one.start, one.end, int(one.partly))) for one in ranges]
        return [_answer(fields, Logged) for fields in self._run(scripts.LOG, runs, missing=("GONE", "1", "0"))]

    def finish(self, query: int, ranges: Sequence[RangeToFinish]) -> list[FinishAnswer]:
        runs: list[Run] = [(one.partition, (query, one.end)) for one in ranges]
        return [_answer(fields, Finished) for fields in self._run(scripts.FINISH, runs, missing=("UNLOGGED",))]

    def set_aside(self, query: int, ranges: Sequence[RangeToSetAside], why: str) -> list[SetAsideAnswer]:
        runs = [(one.partition, (query, one.start, one.end, one.failures, why)) for one in ranges]
        return [_answer(fields, SetAside) for fields in self._run(scripts.ASIDE, runs, missing=("UNLOGGED",))]

    def wait(self, partitions: Sequence[int], timeout: float) -> set[int]:
        """See LoggedRanges. The server wakes the waiter; nothing is polled."""
        places = {partition: self._waits_from.get(partition) for partition in partitions}
        if ready := {partition for partition, place in places.items() if place is None}:
            return ready
        partition_of = {self._keys(partition).wake: partition for partition in partitions}
        woken = set(partitions)  # after a failure the server may have forgotten the waiting client
        try:
            with explained(self._url, self._queue):
                streams = {key: str(places[partition]) for key, partition in partition_of.items()}
                woken = {partition_of[key] for key in self._wakeup.wait(streams, timeout)}
        finally:
            for partition in woken:
                self._waits_from.pop(partition, None)
        return woken

    def interrupt(self) -> None:
        self._wakeup.interrupt()

    def address(self) -> Mapping[str, object]:
        with explained(self._url, self._queue):
            server = server_address(self._url)
        keys, reading = partition_keys(self._queue, ANY_PARTITION), scripts.READING
        return {
            "kind": "redis",
            "server": server,
            "script": reading.text,
            "sha": reading.sha,
            "keys": list(keys),
            "stream": keys.stream,
        }

    def close(self) -> None:
        self._wakeup.close()
        self._client.close()

    def _ahead(self, request: AheadRequest, answer: Sequence[str]) -> AheadAnswer:
        partition = request.partition
        match answer[0]:
            case "STALE":
                self._waits_from[partition] = f"{answer[1]}-{ONLY_GRANTS}"
                return Stale()
            case "PAUSED":
                self._waits_from[partition] = f"{request.epoch}-{ONLY_GRANTS}"
                return Paused()
            case "QUERY" | "GONE":
                found: AheadAnswer = _answer(answer, Ahead)
                return found
        _, end, last, first, size, given = answer
        if end == last:
            self._waits_from[partition] = f"{request.epoch}-{given}"
        else:
            self._waits_from.pop(partition, None)
        return Ahead(int(end), int(last), int(first), int(size))

    def _run(self, script: Script, runs: Sequence[Run], missing: Sequence[str] = ()) -> list[list[str]]:
        """Run a script for many partitions. Returns the fields of the answers, in order. A script that stops early (MORE), so as
        not to block other clients, is run again. `missing`: the answer for a partition that no longer exists, because the queue
        was created again with fewer."""
        with explained(self._url, self._queue):
            answers = self._ask_all(script, runs)
            while more := [nth for nth, answer in enumerate(answers) if answer[0] == "MORE"]:
                for nth, answer in zip(more, self._ask_all(script, [runs[nth] for nth in more]), strict=True):
                    answers[nth] = answer
        unknown = [nth for nth, answer in enumerate(answers) if answer[0] == "UNKNOWN"]
        partitions = self.partitions() if unknown and missing else None
        for nth in unknown:
            partition, _ = runs[nth]
            if partitions is None or partition < partitions:
                raise self._absent(f"partition {partition} of")
            answers[nth] = list(missing)
        return answers

    def _ask_all(self, script: Script, runs: Sequence[Run]) -> list[list[str]]:
        """Run a script once for all partitions. Raises the library's errors, after all have been sent."""
        answers: dict[int, list[str]] = {}
        refusal: ResponseError | None = None
        left = list(range(len(runs)))
        while left:
            at_once = MOST * _SCRIPTS
            parts = [left[begin : begin + MOST] for begin in range(0, min(len(left), at_once), MOST)]
            left = left[at_once:]
            for part, answer in zip(parts, self._ask(script, [[runs[nth] for nth in part] for part in parts]), strict=True):
                if isinstance(answer, ResponseError):
                    refusal = refusal or answer
                    continue
                lines = answer.decode().split("\n")
                answers.update((nth, line.split(" ")) for nth, line in zip(part, lines, strict=False))
                left = part[len(lines) :] + left
        if refusal is not None:
            raise refusal
        return [answers[nth] for nth in range(len(runs))]

    def _ask(self, script: Script, parts: Sequence[Sequence[Run]]) -> list[Any]:
        commands: list[Command] = []
        for runs in parts:
            keys = [key for partition, _ in runs for key in keys_of_ranges(self._keys(partition))]
            arguments = [each for _, values in runs for each in (len(values), *values)]
            commands.append(("EVALSHA", script.sha, len(keys) + 1, *keys, self._keys(runs[0][0]).never, *arguments))
        answers = ask(self._client, commands)
        if any(isinstance(answer, NoScriptError) for answer in answers):
            loaded, *answers = ask(self._client, [("SCRIPT LOAD", script.text), *commands])  # all again: requests are idempotent
            if isinstance(loaded, ResponseError):
                raise loaded
        return answers

    def _keys(self, partition: int) -> PartitionKeys:
        return partition_keys(self._queue, partition)

    def _absent(self, what: str) -> QueueUnreachable:
        return QueueUnreachable(absent(self._url, what, self._queue))


_ANSWERS: Mapping[str, Callable[..., Any]] = {"QUERY": LaterQuery, "GONE": Gone, "ASIDE": SetAside, "UNLOGGED": Unlogged}


def _answer(fields: Sequence[str], done: Callable[..., Any]) -> Any:
    """Parse the fields of an answer. `done`: the type for OK."""
    kind, *numbers = fields
    return _ANSWERS.get(kind, done)(*map(int, numbers))
