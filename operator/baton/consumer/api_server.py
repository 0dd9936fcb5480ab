"""A pod's requests to the API server: JSON requests and watches. It needs urllib3 only, which is one small distribution."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
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
from baton.model.times import from_http_text


class ServerClock:
    """The API server's time in Unix seconds, to within a second, from the dates of its answers and the monotonic clock in
    between. Before the first answer it is this machine's time."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        return self._offset + time.monotonic()

    def follow(self, date: str | None, asked: float) -> None:
        """Correct the clock by the `Date` header of an answer whose request was sent at `asked` (monotonic), if they disagree."""
        answered = from_http_text(date or "")
        if answered is not None:
            self._offset = min(max(self._offset, answered - time.monotonic()), answered + 1 - asked)


Json = dict[str, Any]
"""A resource, or an event of a watch, as JSON."""

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Directory of the pod's service account."""

_ANSWER_WITHIN = urllib3.Timeout(connect=2.0, read=4.0)
WATCH_FOR = 20.0
"""Seconds after which the API server ends a watch. If a watch is silent for a quarter longer, its connection is dead, such as
behind a firewall that dropped it."""
_MOST = 16 * 2**20
"""Maximum bytes of an answer or an event. A ConfigMap has one MiB at most."""
_PAGE, _SMALL_PAGE = 500, 10
"""Objects in a page of a list; the small page is for objects as large as they can be (1.5 MiB)."""
_CHUNK = 2**16
_LONGEST_MESSAGE = 1000
_READING = Lock()


class ApiRefused(Exception):  # noqa: N818 -- describes the outcome to the user
    """The API server rejected a request. The text is its status and message on one line."""

    def __init__(self, status: int, message: object) -> None:
        super().__init__(f"{status} {' '.join(str(message).split())[:_LONGEST_MESSAGE]}")
        self.status = status


class DevEnded(urllib3.exceptions.HTTPError):
    """The `baton dev` that this process belongs to has ended. A new one does not know the process."""

    def __init__(self) -> None:
        super().__init__("`baton dev` has ended: start it again, then this program, by `baton dev run`")


class AnswerTooLong(ApiRefused):
    """The answer exceeds the limit, which protects this process's memory."""


class ApiConnection:
    """A connection to one API server as one user. Threads may share it. All methods may also raise urllib3's errors."""

    def __init__(
        self, url: str, pool: urllib3.PoolManager, authorization: Callable[[], str | None], *, of_dev: bool = False
    ) -> None:
        """`authorization`: returns the Authorization header; called for each request. `of_dev`: the API server is `baton dev`."""
        self._of_dev = of_dev
        self._url = url.rstrip("/")
        self._pool = pool
        self._authorization = authorization
        self.clock = ServerClock()

    @classmethod
    def in_pod(cls, account: Path = ACCOUNT, environment: Mapping[str, str] | None = None) -> Self:
        """Connect as the pod's service account. The token is read for each request and the CA for each connection, because the
        kubelet replaces them.

        Raises ValueError if there is no service account.
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
        """Connect to BATON_API_SERVER with the token BATON_API_TOKEN (`baton dev run` sets both), or else as `in_pod`."""
        environment = os.environ if environment is None else environment
        if url := environment.get("BATON_API_SERVER"):
            token = environment.get("BATON_API_TOKEN", "")
            return cls(url, urllib3.PoolManager(maxsize=4), lambda: f"Bearer {token}", of_dev=True)
        return cls.in_pod(environment=environment)

    @classmethod
    def from_kubeconfig(cls, path: str | None = None) -> Self:
        """Connect as kubectl does (by `path` or $KUBECONFIG), for development. Needs the distribution `kubernetes`."""
        try:
            from kubernetes import client, config
        except ImportError:
            raise ValueError("reading a kubeconfig needs the Kubernetes client: pip install kubernetes") from None

        configuration: Any = client.Configuration()
        load: Any = config.load_kube_config  # not typed by the library
        # The library writes the private key to files that all threads share: in this directory a killed process leaves none.
        with _READING, TemporaryDirectory(prefix="baton-") as folder:
            load(path, client_configuration=configuration, temp_file_path=folder)
            pool: Any = client.rest.RESTClientObject(configuration).pool_manager
            _read_now(pool.connection_pool_kw)
        return cls(configuration.host, pool, lambda: configuration.auth_settings().get("BearerToken", {}).get("value"))

    def request(self, method: str, path: str, body: Json | None = None, **query: str) -> Json:
        """Send a request and return the answer. Raises ApiRefused."""
        with self._asked(method, path, body, query, _ANSWER_WITHIN) as answer:
            return _object(_bounded(answer))

    def list(self, path: str, **query: str) -> Json:
        """Return all objects of a list. They are read in pages, because others may have created large objects. Raises
        ApiRefused."""
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
        """Watch a list from `resourceVersion` on, until the API server ends the watch after `seconds`."""
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
                raise ApiRefused(answer.status, _message(answer))
            yield answer
        finally:
            answer.close()


class ListWatch:
    """The events of one watch, as they arrive."""

    def __init__(self, answer: urllib3.BaseHTTPResponse) -> None:
        self._answer = answer

    def __iter__(self) -> Iterator[Json]:
        """Yield events. Raises ApiRefused if the API server ends the watch with an error."""
        lines = Lines()
        for chunk in self._answer.stream(_CHUNK):
            for line in lines.ended_by(chunk):
                if line:
                    yield _event(line)
            if len(lines.rest) > _MOST:
                raise ApiRefused(self._answer.status, f"an event of more than {_MOST} bytes")

    def end(self) -> None:
        """End every wait for an event. Any thread may call this."""
        with suppress(ValueError, RuntimeError, OSError):  # the watch has ended already
            self._answer.shutdown()


def _read_now(pool: dict[str, Any]) -> None:
    """Load a pool's certificates and key now; the pool would otherwise read the files for each connection."""
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
    """Return names as segments of a URL path."""
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
        raise ApiRefused(200, "the answer is not a JSON object: this is not an API server")
    return made


def _message(answer: urllib3.BaseHTTPResponse) -> object:
    """Return the message of an error, such as that of an admission policy or of RBAC."""
    try:
        return json.loads(answer.read(_CHUNK))["message"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return answer.reason


_ABSENT, _CONFLICT = 404, 409


class KubernetesLease:
    """A LeaseStore of the Lease `name` at the API server."""

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
    """Return the session of the pod, whose Lease is deleted with it."""
    lease = KubernetesLease(api, pod.namespace, session_lease_name(pod.name))
    owner = {"name": pod.name, "uid": pod.uid}
    return Session(lease, holder=pod.uid, group=pod.group, owner=owner, clock=api.clock.now)
