"""A pod's requests to the API server: JSON there and back, and a watch. By urllib3 alone, which is one small distribution."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, Self
from urllib.parse import quote

import urllib3
from urllib3.util.ssl_ import create_urllib3_context

from baton.consumer.pod import Pod
from baton.consumer.session import Session
from baton.model.lease import Manifest
from baton.model.lines import Lines
from baton.model.names import session_lease_name

_LONGEST_DATE = 64


class ServerClock:
    """Unix seconds as the API server's answers have them, to within a second, and by the monotonic clock in between. Until it has
    answered they are this machine's."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        return self._offset + time.monotonic()

    def follow(self, date: str | None, asked: float) -> None:
        """Go by the header `Date` of an answer to what was `asked` then (monotonic). One that agrees changes nothing."""
        try:
            told = parsedate_to_datetime((date or "")[:_LONGEST_DATE]).timestamp()
        except (ValueError, OverflowError, TypeError, IndexError):  # it is no date
            return
        self._offset = min(max(self._offset, told - time.monotonic()), told + 1 - asked)


Json = dict[str, Any]
"""A resource, or an event of a watch, as JSON."""

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its service account."""

_ANSWER_WITHIN = urllib3.Timeout(connect=2.0, read=4.0)
WATCH_FOR = 20.0
"""Seconds after which the API server ends a watch. One that has said nothing for a quarter longer has a connection that died
unseen, as behind a firewall that forgot it."""
_MOST = 16 * 2**20
"""Bytes of an answer, or of an event. A ConfigMap has one MiB at most."""
_PAGE, _SMALL_PAGE = 500, 10
"""Objects of a list at a time; so few if they are as large as objects can be (1.5 MiB)."""
_CHUNK = 2**16
_LONGEST_WORDS = 1000
_READING = Lock()


class ApiRefused(Exception):  # noqa: N818 -- what became of the request, for the user
    """The API server did not do what was asked: its words, on one line."""

    def __init__(self, status: int, words: object) -> None:
        super().__init__(f"{status} {' '.join(str(words).split())[:_LONGEST_WORDS]}")
        self.status = status


class DevEnded(urllib3.exceptions.HTTPError):
    """The `baton dev` that this process belongs to has ended. Another one does not know the process."""

    def __init__(self) -> None:
        super().__init__("`baton dev` has ended: start it again, then this program, by `baton dev run`")


class AnswerTooLong(ApiRefused):
    """It is cut off, so that no object fills this process's memory."""


class ApiConnection:
    """One API server, as one user. Threads may share it. Beside what methods name, they raise what urllib3 raises."""

    def __init__(
        self, url: str, pool: urllib3.PoolManager, authorization: Callable[[], str | None], *, of_dev: bool = False
    ) -> None:
        """`authorization`: the header of that name, asked for with each request. `of_dev`: it is `baton dev`."""
        self._of_dev = of_dev
        self._url = url.rstrip("/")
        self._pool = pool
        self._authorization = authorization
        self.clock = ServerClock()

    @classmethod
    def in_pod(cls, account: Path = ACCOUNT, environment: Mapping[str, str] | None = None) -> Self:
        """As the pod's service account. Its token is read with each request and the authority with each connection, for the
        kubelet replaces them.

        Raises ValueError where there is none.
        """
        environment = os.environ if environment is None else environment
        host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
        token, authority = account / "token", account / "ca.crt"
        if not host or not port:
            raise ValueError(
                "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this is no pod of a cluster; without a "
                "cluster start the program by `baton dev run -- …`"
            )
        if not token.is_file() or not authority.is_file():
            raise ValueError(f"{account} has no token: do not set automountServiceAccountToken to false in the pod's spec")
        pool = urllib3.PoolManager(maxsize=4, ca_certs=str(authority))
        address = f"[{host}]" if ":" in host else host
        return cls(f"https://{address}:{port}", pool, lambda: f"Bearer {token.read_text(encoding='utf-8').strip()}")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self:
        """The one that BATON_API_SERVER names, with the token BATON_API_TOKEN (`baton dev run` sets both); else as `in_pod`."""
        environment = os.environ if environment is None else environment
        if url := environment.get("BATON_API_SERVER"):
            token = environment.get("BATON_API_TOKEN", "")
            return cls(url, urllib3.PoolManager(maxsize=4), lambda: f"Bearer {token}", of_dev=True)
        return cls.in_pod(environment=environment)

    @classmethod
    def from_kubeconfig(cls, path: str | None = None) -> Self:
        """As kubectl would connect (`path` or $KUBECONFIG), for development. Needs the distribution `kubernetes`."""
        try:
            from kubernetes import client, config
        except ImportError:
            raise ValueError("a kubeconfig is read by the Kubernetes client: pip install kubernetes") from None

        configuration: Any = client.Configuration()
        load: Any = config.load_kube_config  # not typed by the library
        # What a process that is killed would leave: the private key, too. The library has one file for what several threads read.
        with _READING, TemporaryDirectory(prefix="baton-") as folder:
            load(path, client_configuration=configuration, temp_file_path=folder)
            pool: Any = client.rest.RESTClientObject(configuration).pool_manager
            _read_now(pool.connection_pool_kw)
        return cls(configuration.host, pool, lambda: configuration.auth_settings().get("BearerToken", {}).get("value"))

    def request(self, method: str, path: str, body: Json | None = None, **query: str) -> Json:
        """What the API server answers. Raises ApiRefused."""
        with self._asked(method, path, body, query, _ANSWER_WITHIN) as answer:
            return _object(_bounded(answer))

    def list(self, path: str, **query: str) -> Json:
        """All objects of a list. It comes in pages, for objects of others are as large as they like. Raises ApiRefused."""
        try:
            return self._pages(path, {**query, "limit": str(_PAGE)})
        except AnswerTooLong:
            return self._pages(path, {**query, "limit": str(_SMALL_PAGE)})

    def _pages(self, path: str, query: Mapping[str, str]) -> Json:
        listed = page = self.request("GET", path, None, **query)
        items = list(listed.get("items") or ())
        while following := (page.get("metadata") or {}).get("continue"):
            page = self.request("GET", path, None, **query, **{"continue": following})
            items += page.get("items") or ()
        return {**listed, "items": items}

    @contextmanager
    def watch(self, path: str, seconds: float = WATCH_FOR, **query: str) -> Iterator["ListWatch"]:
        """Events of a list from `resourceVersion` on, until the API server ends it after so many seconds."""
        query |= {"watch": "true", "timeoutSeconds": str(ceil(seconds))}
        with self._asked("GET", path, None, query, urllib3.Timeout(connect=5.0, read=1.25 * seconds)) as answer:
            yield ListWatch(answer)

    @contextmanager
    def _asked(
        self, method: str, path: str, body: Json | None, query: Mapping[str, str], timeout: urllib3.Timeout
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        headers = {"Accept": "application/json", "User-Agent": "baton-consumer"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if authorization := self._authorization():
            headers["Authorization"] = authorization
        fields = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
        asked = time.monotonic()
        try:
            answer = self._pool.request(
                method,
                f"{self._url}{path}?{fields}" if fields else f"{self._url}{path}",
                body=None if body is None else json.dumps(body).encode(),
                headers=headers,
                timeout=timeout,
                retries=False,
                preload_content=False,
            )
        except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ProtocolError):
            if self._of_dev:
                raise DevEnded from None
            raise
        self.clock.follow(answer.headers.get("Date"), asked)
        try:
            if not 200 <= answer.status < 300:
                raise ApiRefused(answer.status, _words(answer))
            yield answer
        finally:
            answer.close()


class ListWatch:
    """The events of one watch, as they come."""

    def __init__(self, answer: urllib3.BaseHTTPResponse) -> None:
        self._answer = answer

    def __iter__(self) -> Iterator[Json]:
        """Raises ApiRefused where the API server says that this watch cannot go on."""
        lines = Lines()
        for chunk in self._answer.stream(_CHUNK):
            for line in lines.ended_by(chunk):
                if line:
                    yield _event(line)
            if len(lines.rest) > _MOST:
                raise ApiRefused(self._answer.status, f"an event of more than {_MOST} bytes")

    def end(self) -> None:
        """From any thread: end every wait for an event."""
        with suppress(ValueError, RuntimeError, OSError):  # it has ended by itself
            self._answer.shutdown()


def _read_now(pool: dict[str, Any]) -> None:
    """A pool's certificates and key, which it would read from their files with each connection."""
    context = create_urllib3_context(cert_reqs=pool["cert_reqs"])
    authority, certificate, key = (pool.pop(name, None) for name in ("ca_certs", "cert_file", "key_file"))
    if authority:
        context.load_verify_locations(authority)
    else:
        context.load_default_certs()
    if certificate:
        context.load_cert_chain(certificate, key)
    pool["ssl_context"] = context


def segments(*names: str) -> str:
    """Names as parts of a path."""
    return "/".join(quote(name, safe="") for name in names)


def _event(line: bytes) -> Json:
    event = _object(line)
    if event.get("type") == "ERROR":
        status = event.get("object") or {}
        raise ApiRefused(int(status.get("code") or 500), status.get("message"))
    return event


def _bounded(answer: urllib3.BaseHTTPResponse) -> bytes:
    content = answer.read(_MOST + 1)
    if len(content) > _MOST:
        raise AnswerTooLong(answer.status, f"an answer of more than {_MOST} bytes")
    return content


def _object(text: bytes) -> Json:
    try:
        made = json.loads(text)
    except (ValueError, RecursionError):
        made = None
    if not isinstance(made, dict):
        raise ApiRefused(200, "an answer that is no JSON object: something else than an API server answers")
    return made


def _words(answer: urllib3.BaseHTTPResponse) -> object:
    """Without headers: what a policy or a role has to say, who may, and what to do."""
    try:
        return json.loads(answer.read(_CHUNK))["message"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return answer.reason


_ABSENT, _CONFLICT = 404, 409


class KubernetesLease:
    """The Lease `name` at the API server."""

    def __init__(self, api: ApiConnection, namespace: str, name: str) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._all = f"/apis/coordination.k8s.io/v1/namespaces/{segments(namespace)}/leases"
        self._one = f"{self._all}/{segments(name)}"

    def read(self) -> Manifest | None:
        try:
            return self._api.request("GET", self._one)
        except ApiRefused as refusal:
            if refusal.status == _ABSENT:
                return None
            raise

    def write(self, lease: Manifest) -> Manifest | None:
        lease["metadata"] |= {"namespace": self._namespace, "name": self._name}
        exists = "resourceVersion" in lease["metadata"]
        try:
            return self._api.request("PUT", self._one, lease) if exists else self._api.request("POST", self._all, lease)
        except ApiRefused as refusal:
            if refusal.status in (_ABSENT, _CONFLICT):
                return None
            raise


def session_of(pod: Pod, api: ApiConnection) -> Session:
    """The pod's own session, whose Lease goes with it."""
    lease = KubernetesLease(api, pod.namespace, session_lease_name(pod.name))
    return Session(lease, holder=pod.uid, group=pod.group, owner={"name": pod.name, "uid": pod.uid})
