"""An HTTP server for the few requests of a consumer to an API server (its Lease), and for processes that start and end."""

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from hmac import compare_digest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from secrets import token_hex
from typing import Any
from uuid import uuid4

from baton.model.ids import MemberId, Uid
from baton.model.names import session_lease_name

Json = dict[str, Any]

_LARGEST = 2**20
"""The most bytes of a request."""
ABSENT, CONFLICT = 404, 409


@dataclass(frozen=True, slots=True)
class Process:
    """A process in the place of a pod."""

    name: MemberId
    uid: Uid
    pid: int | None = None
    """The pid of its `baton dev run`, which ends with it."""
    ending: bool = False
    """Whether it was asked to stop."""

    @property
    def alive(self) -> bool:
        """Whether its `baton dev run` runs. A killed one could not report its end."""
        try:
            with suppress(PermissionError):  # it runs, as another user
                os.kill(self.pid or os.getpid(), 0)
        except ProcessLookupError:
            return False
        return True


class DevServer:
    """A server on a port of 127.0.0.1. `changed` is called after each change, on any thread."""

    def __init__(self, namespace: str, group: str, changed: Callable[[], None], now: Callable[[], float] = time.time) -> None:
        """`now`: the time in the Date header (Unix seconds), the same as the ledger's."""
        self.now = now
        self._leases_path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._group = group
        self._changed = changed
        self._lock = threading.Lock()
        self._closed = False
        self._leases: dict[str, Json] = {}
        self._processes: dict[str, Process] = {}
        self._versions = count(1)
        self.ledger: Mapping[str, str] = {}
        """The ledger as last written."""
        self.token = token_hex(16)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, name="baton-dev-server", daemon=True).start()

    def close(self) -> None:
        """Stop serving. `changed` is not called after this returns, although requests in progress may end later."""
        with self._lock:
            self._closed = True
        self._server.shutdown()
        self._server.server_close()

    def leases(self) -> list[Json]:
        with self._lock:
            return list(self._leases.values())

    def processes(self) -> list[Process]:
        with self._lock:
            return list(self._processes.values())

    def answer(self, method: str, path: str, body: Json) -> tuple[int, Json]:
        """Answer a request with a status and a body."""
        with self._lock:
            status, found = self._answered(method, path, body)
            if method != "GET" and status == 200 and not self._closed:
                self._changed()
        return status, found

    def _answered(self, method: str, path: str, body: Json) -> tuple[int, Json]:
        top, _, name = path.rpartition("/")
        match method:
            case "GET" if path == "/group":
                return 200, {"processes": [self._shown(process) for process in self._processes.values()], "ledger": self.ledger}
            case "POST" if path == "/processes":
                for one in [one for one in self._processes.values() if not one.alive]:
                    self._end(one)
                name = body.get("name") or self._free_name()
                return (CONFLICT, {}) if name in self._processes else (200, self._begin(name, body.get("pid")))
            case "PATCH" if top == "/processes" and name in self._processes:
                self._processes[name] = replace(self._processes[name], ending=True)
                return 200, {}
            case "DELETE" if top == "/processes" and name in self._processes:
                self._end(self._processes[name])
                return 200, {}
            case "GET" if top == self._leases_path and name in self._leases:
                return 200, self._leases[name]
            case "POST" if path == self._leases_path:
                name = str((body.get("metadata") or {}).get("name"))
                return (CONFLICT, {}) if name in self._leases else (200, self._put(name, body))
            case "PUT" if top == self._leases_path and name in self._leases:
                before = self._leases[name]["metadata"]["resourceVersion"]
                same = (body.get("metadata") or {}).get("resourceVersion") == before
                return (200, self._put(name, body)) if same else (CONFLICT, {})
        return ABSENT, {"message": f"{method} {path}: baton dev has nothing there"}

    def _free_name(self) -> str:
        return next(name for number in count(1) if (name := f"{self._group}-{number}") not in self._processes)

    def _begin(self, name: str, pid: int | None) -> Json:
        self._processes[name] = Process(MemberId(name), Uid(str(uuid4())), pid)
        return {"name": name, "uid": self._processes[name].uid}

    def _end(self, process: Process) -> None:
        del self._processes[process.name]
        self._leases.pop(session_lease_name(process.name), None)
        self._leases = {held: lease for held, lease in self._leases.items() if _holder(lease) != process.uid}

    def _shown(self, process: Process) -> Json:
        session = self._leases.get(session_lease_name(process.name), {})
        return {**asdict(process), "session": _holder(session) == process.uid}

    def _put(self, name: str, body: Json) -> Json:
        metadata = {**body["metadata"], "name": name, "resourceVersion": str(next(self._versions))}
        self._leases[name] = {**body, "metadata": metadata}
        return self._leases[name]


def _holder(lease: Json) -> object:
    return (lease.get("spec") or {}).get("holderIdentity")


def _handler(server: DevServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            if length > _LARGEST:
                self._say(413, {"message": "too large"})
                self.close_connection = True
                return
            raw = self.rfile.read(length)
            if not compare_digest(self.headers.get("Authorization") or "", f"Bearer {server.token}"):
                self._say(401, {"message": "wrong token: start the process with `baton dev run`"})
                return
            try:
                body = json.loads(raw) if raw else {}
            except ValueError:
                body = None
            if not isinstance(body, dict):
                self._say(400, {"message": "not a JSON object"})
                return
            self._say(*server.answer(self.command, self.path.partition("?")[0], body))

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - the library's names

        def _say(self, status: int, body: Json) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string(server.now() if timestamp is None else timestamp)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - likewise
            """Log nothing."""

    return Handler
