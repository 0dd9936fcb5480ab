"""Explains the library's errors to users: a sentence with the problem, the place and the cure, and never with a password."""

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from re import ASCII, fullmatch

from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    ConnectionError,  # noqa: A004 - the library's name
    InvalidResponse,
    OutOfMemoryError,
    RedisError,
    ResponseError,
    TimeoutError,  # noqa: A004 - likewise
)

from baton.model.names import TAKE_OVER_ANNOTATION
from baton.queues.protocol import Claimant, QueueUnreachable
from baton.queues.redis import scripts
from baton.queues.redis.connection import NotPrimaryError, UnlocatedError, is_denial
from baton.queues.redis.keys import PartitionKeys
from baton.queues.redis.records import ForeignRecord, OddAnswerError
from baton.queues.redis.url import RedisUrl, dev_queue
from baton.queues.redis.url_files import CredentialFileError, TlsFileError


def claimed_by_other(queue: str, claimant: Claimant, group: bytes | None, uid: bytes) -> str:
    """Explain a QueueConflict. `group` and `uid` are the server's raw records."""
    other, other_uid = _readable(group or b""), _readable(uid)
    namespace, _, name = claimant.group.partition("/")
    cure = (
        f"If that group is gone for good, take the queue over: kubectl annotate consumergroup {name} -n {namespace} --overwrite "
        f"{TAKE_OVER_ANNOTATION}={other_uid}"
    )
    if other != claimant.group:
        return (
            f"The Redis queue {queue} belongs to the ConsumerGroup {other} (uid {other_uid}), and a queue has one group. Delete "
            f"that group, or give {claimant.group} another queue. {cure}"
        )
    return (
        f"The Redis queue {queue} belongs to another ConsumerGroup {other}, with the uid {other_uid}; this one's is "
        f"{claimant.uid}. It is a group of another cluster, or an earlier one that was deleted without releasing the queue. If "
        f"it is in another cluster, give this queue a separate Redis or database. {cure}"
    )


def _readable(recorded: bytes) -> str:
    text = recorded.decode(errors="replace")
    return text if fullmatch(r"[a-zA-Z0-9./-]{1,320}", text, ASCII) else "(unreadable)"


_PLACE = re.compile(r"script: ([0-9a-f]{40}), on @user_script:([0-9]{1,5})")
_CALL = re.compile(r"redis\.p?call\(\s*'([A-Z]+)'(?:, '(CREATE|SETID|GROUPS)')?")
_KEY = re.compile(rf"\b(?:(QUEUE|KEYS\[1\])|({'|'.join(name.upper() for name in PartitionKeys._fields)}))(?![A-Z'])")
_COMMAND = re.compile(r"to run the '([a-z|]{1,40})' command")


@contextmanager
def explained(url: RedisUrl, queue: str) -> Iterator[None]:
    """Turn the library's errors into QueueUnreachable with a sentence. The originals are dropped, as they may contain secrets."""
    try:
        yield
    except (RedisError, OSError) as error:
        raise QueueUnreachable(explain(error, url, queue)) from None


def passing(error: Exception) -> bool:
    """Whether the error may be temporary, so that the request should be repeated."""
    if isinstance(error, (ConnectionError, TimeoutError, OutOfMemoryError, OSError)):
        return True
    return isinstance(error, ResponseError) and str(error).startswith(("NOREPLICAS", "MISCONF", "BUSY "))


def explain(error: Exception, url: RedisUrl, queue: str) -> str:  # noqa: C901 - one case for each kind of error
    """Explain an error of the library and name the cure."""
    place, text = url.place, str(error).strip() or type(error).__name__
    if refused := _cause(error, TlsFileError) or _cause(error, CredentialFileError):
        return str(refused)
    if isinstance(nowhere := _cause(error, UnlocatedError), UnlocatedError):
        return _unlocated(nowhere, url, queue)
    if isinstance(refusal := _cause(error, NotPrimaryError), NotPrimaryError):
        return not_primary(refusal.status, url, queue)
    match error:
        case AuthenticationError() | AuthorizationError():
            return _refused_password(url, queue)
        case ResponseError() if "NOAUTH" in text or "WRONGPASS" in text or "unauthenticated" in text:
            return _refused_password(url, queue)
        case _ if is_denial(error):
            what = url.hidden(denied(error, queue))
            return (
                f"{place} does not permit its user what {queue} needs: {what}. Give it the rights that the guide for Redis names "
                f"by ACL SETUSER, on the keys ~pq:{{{queue}}}:*."
            )
        case ForeignRecord():
            return (
                f"{place} has records of {queue} that Baton did not write ({error}). Move the keys pq:{{{queue}}}:… away, or use "
                f"another database for {queue}."
            )
        case InvalidResponse() | OddAnswerError():
            what = text if isinstance(error, OddAnswerError) else "not the Redis protocol"
            return f"{place} does not answer like Redis ({what}). Correct the URL of {queue} so that it leads to a Redis."
        case ConnectionError() | TimeoutError() | OSError() if "SSL" in text or "certificate" in text:
            return (
                f"{place} and Baton do not agree on TLS ({url.hidden(text)}). Check that the URL of {queue} begins with "
                "rediss://, and its options ssl_ca_certs, ssl_certfile and ssl_keyfile."
            )
        case _ if _cause(error, socket.gaierror):
            return _unknown_host(url, queue)
        case ConnectionError() if "max number of clients" in text:
            return (
                f"{place} has reached its limit of connections (maxclients), so {queue} has none. Work on it resumes when there "
                "is room: raise maxclients, or look for the clients with many connections in CLIENT LIST."
            )
        case ConnectionError() | TimeoutError() | OSError():
            hint = " If it does not speak TLS, begin its URL with redis://." if url.scheme == "rediss" else ""
            why, text = _cause(error, OSError), url.hidden(text)
            if isinstance(why, OSError) and why.errno and not (url.sentinels or url.cluster):  # these need the server in the text
                text = os.strerror(why.errno)
            return f"{place} does not answer ({text}). Work on {queue} resumes when it is back: {_start(url)}.{hint}"
        case OutOfMemoryError():
            return (
                f"{place} is full (maxmemory), so {queue} accepts no new entries. Raise maxmemory, or let the consumers catch up."
            )
        case ResponseError() if text.startswith("WRONGTYPE"):
            return f"{place} has other data under the keys pq:{{{queue}}}:…. Move them away, or use another database for {queue}."
        case ResponseError() if "unknown command" in text:
            return (
                f"{place} does not support what {queue} needs ({url.hidden(text)}). If it is a Sentinel, write "
                "redis+sentinel://host1:26379,host2:26379/name-of-the-primary/0 as the URL."
            )
        case ResponseError() if text.startswith("MISCONF"):
            return f"{place} cannot write to its disk and refuses changes. Free its disk; then work on {queue} resumes."
        case ResponseError() if text.startswith("BUSY "):
            return f"{place} is busy with a long script. Work on {queue} resumes when the script ends (or by SCRIPT KILL)."
        case ResponseError() if text.startswith("NOREPLICAS"):
            return f"{place} has fewer replicas than its min-replicas-to-write. Work on {queue} resumes when they are back."
        case ResponseError() if "DB index" in text:
            return f"{place} has no database {url.options.get('db', 0)}. Correct the number at the end of the URL of {queue}."
    return f"{place} refused a request for {queue}: {url.hidden(text)}"


def _cause(error: BaseException | None, kind: type[Exception]) -> BaseException | None:
    """Return the error of this kind in the chain of causes: the library chains its errors to those of others, such as the
    resolver's."""
    while error is not None and not isinstance(error, kind):
        error = error.__cause__ or error.__context__
    return error


def _start(url: RedisUrl) -> str:
    """The cure for a server that does not answer. Sentinels and cluster nodes define its address; otherwise the URL does."""
    named = url.sentinels is not None or url.cluster is not None
    return "start it" if named else f"start it, or correct its address in {url.stands_in}"


def _unknown_host(url: RedisUrl, queue: str) -> str:
    if url.sentinels is not None:
        return f"{url.asker} cannot resolve the host that the Sentinels name for {url.place}: see SENTINEL MASTERS."
    if url.cluster is not None:
        return (
            f"{url.asker} cannot resolve the host that the nodes of {url.place} name for {queue}: see CLUSTER SLOTS, and the "
            "settings cluster-announce-hostname and cluster-announce-ip."
        )
    host, namespace = str(url.options.get("host", "")), queue.partition("/")[0]
    said = f"{url.asker} cannot resolve '{host}', the host of {queue}"
    if dev_queue():
        return f"{said}: correct it in {url.stands_in}."
    if "." in host or ":" in host:
        return f"{said}: correct it in {url.stands_in}, or check that the cluster's DNS has it and answers."
    return (
        f"{said}: write {host}.<namespace> in {url.stands_in}, such as {host}.{namespace}. A Service's name without its "
        "namespace is known in that namespace only."
    )


def _unlocated(error: UnlocatedError, url: RedisUrl, queue: str) -> str:
    if url.sentinels is None:
        if error.trouble == "refused":
            return _refused_password(url, queue)
        return (
            f"None of the nodes at {url.cluster} says where {queue} is ({url.hidden(error)}). Work on it resumes when one does: "
            f"check that the nodes in {url.stands_in} are running."
        )
    match error.trouble:
        case "unknown":
            return (
                f"The Sentinels at {url.sentinels} know no primary named {url.sentinels.service}: correct the name, which "
                f"follows them in {url.stands_in} (SENTINEL MASTERS lists the known ones)."
            )
        case "refused":
            cure = (
                "put the right one into"
                if url.sentinels.password
                else "if it is the same as the servers', add sentinel_auth=true to"
            )
            return (
                f"The Sentinels at {url.sentinels} require a user or a password for {queue} ({url.hidden(error)}): {cure} "
                f"{url.stands_in}."
            )
    return (
        f"None of the Sentinels at {url.sentinels} answers ({url.hidden(error)}). New connections for {queue} "
        f"need one: start them, or correct their addresses in {url.stands_in}."
    )


def absent(url: RedisUrl, what: str, queue: str) -> str:
    """Explain that `what` of a queue does not exist."""
    said = f"{url.place}, database {url.options.get('db', 0)}, has no {what} {queue}."
    if there := dev_queue():
        if there == queue:
            return f"{said} Work resumes when `baton dev` has created it: check its output, and that its Redis is this one."
        return f"{said} Did you mean {there}? `baton dev` creates only that one; its --queue gives it another name."
    namespace = queue.rpartition("/")[0]
    within = f" -n {namespace}" if namespace else ""
    return (
        f"{said} Either the name is wrong: kubectl get partitionedqueues{within} lists the queues. Or spec.source.redis of the "
        "PartitionedQueue names another database: correct the URL here. Or the queue was not created yet, or has lost its data: "
        "work resumes when the operator has created it, for a ConsumerGroup that names it. The conditions of that group say what "
        f"it waits for: kubectl describe consumergroups{within}."
    )


def not_primary(status: str, url: RedisUrl, queue: str) -> str:
    """Explain a server's refusal to serve requests (`NotPrimaryError.status`)."""
    place = url.place
    match status:
        case "LOADING":
            return f"{place} is still loading its data. Work on {queue} resumes when that is done."
        case "MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN" if url.cluster is None:
            return (
                f"{place} is a node of a Redis Cluster. Begin the URL of {queue} with redis+cluster:// (rediss+cluster:// "
                "for TLS), and name several of its nodes there."
            )
        case "CLUSTERDOWN":
            return f"{place} has no master for {queue} (CLUSTERDOWN). Work on it resumes when there is one: see CLUSTER NODES."
        case "MOVED" | "ASK" | "TRYAGAIN":
            return (
                f"{place} is moving {queue} to another node ({status}). Work on it resumes after the move; redis-cli "
                "--cluster fix completes a move that was interrupted."
            )
        case "MASTERDOWN":
            return f"{place} is a replica that has lost its primary. Work on {queue} resumes when its address leads to a primary."
    return (
        f"{place} is a read-only replica. Point the URL of {queue} at the primary; after a failover work resumes when its "
        "address leads there."
    )


def _refused_password(url: RedisUrl, queue: str) -> str:
    if url.files:
        return (
            f"{url.place} refused the user or password for {queue} from {' and '.join(url.files.values())}. The file is read "
            "again at each attempt: put the right one there."
        )
    return f"{url.place} refused the user or password for {queue}. Put the right one into {url.stands_in}."


def denied(error: Exception, queue: str) -> str:
    """Return what was denied, such as "XADD on pq:{shop/orders}:…:stream"."""
    text = str(error)
    if found := _PLACE.search(text):
        return _line(found[1], found[2], queue)
    return denied_command(error) or f"the keys pq:{{{queue}}}:…"


def denied_command(error: Exception) -> str | None:
    """Return the command that was denied; None: a key was denied."""
    found = _COMMAND.search(str(error))
    return found[1].replace("|", " ").upper() if found else None


def _line(sha: str, number: str, queue: str) -> str:
    script = next((one for one in scripts.ALL if one.sha == sha), None)
    lines = script.text.splitlines() if script else []
    begins = "\n".join(lines[int(number) - 1 :][:3])
    call = _CALL.search(begins)
    if call is None:
        return f"a command on the keys pq:{{{queue}}}:…"
    command = " ".join(word for word in call.groups() if word)
    key = _KEY.search(begins, call.end())
    if key is None:
        return command
    return f"{command} on pq:{{{queue}}}:" + ("queue" if key[1] else f"…:{key[2].lower()}")
