"""Connect a command to the API server that kubectl would use, and turn errors into messages.

Kubeconfigs are checked before the client reads them: with an invalid one it would raise a traceback, or use localhost.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import yaml

from baton.cli.options import ClusterTarget
from baton.cli.printing import refuse, waiting_for
from baton.kube.api import Api, connect
from baton.kube.errors import ApiError, NotFoundError, UnavailableError

Entries = Mapping[str, Mapping[str, object]]


class KubeconfigError(ValueError):
    """A kubeconfig does not name an API server. The message is one line, with a cure."""


def default_kubeconfig() -> Path | None:
    """The kubeconfig that kubectl would use; None in a pod, which uses its service account. Several files are one path, as in
    KUBECONFIG."""
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return None
    named = os.environ.get("KUBECONFIG", "").strip(os.pathsep)
    return Path(named) if named else Path.home() / ".kube" / "config"


def context_of(kubeconfig: Path, name: str | None = None) -> tuple[str, str]:
    """The name and the namespace of the context of this name, or of the current one. If several files define something, the first
    wins, as for kubectl."""
    files = [Path(os.path.expanduser(one)) for one in str(kubeconfig).split(os.pathsep) if one]  # noqa: PTH111 -- Path's raises
    there = [file for file in files if file.exists()]
    if not there:
        raise KubeconfigError(f"there is no kubeconfig {kubeconfig}: use --kubeconfig FILE, or set KUBECONFIG")
    contents = [_read(file) for file in there]
    contexts, clusters, users = (_named(kind, contents, kubeconfig) for kind in ("contexts", "clusters", "users"))
    name = name or next((str(one["current-context"]) for one in contents if one.get("current-context")), None)
    choice = f"choose one of {', '.join(sorted(contexts))}" if contexts else "it has no contexts at all"
    if name is None:
        raise KubeconfigError(f"{kubeconfig}: current-context is not set: {choice}, with --context")
    if name not in contexts:
        raise KubeconfigError(f"{kubeconfig}: there is no context {name!r}: {choice}")
    context = contexts[name]
    if not clusters.get(str(context.get("cluster")), {}).get("server"):
        raise KubeconfigError(f"{kubeconfig}: the context {name} names no cluster with a server: correct contexts and clusters")
    if str(context.get("user")) not in users:
        raise KubeconfigError(f"{kubeconfig}: the context {name} names no user of users: correct contexts and users")
    return name, str(context.get("namespace") or "default")


def _read(file: Path) -> Mapping[str, object]:
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise KubeconfigError(f"{file}: {error.strerror}") from None
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise KubeconfigError(f"{file}: {line}not YAML: {error.problem}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise KubeconfigError(f"{file}: not a text in YAML") from None
    if not isinstance(content, dict):
        raise KubeconfigError(f"{file}: not a kubeconfig: it has no clusters, contexts and users")
    return content


def _named(kind: str, contents: Sequence[Mapping[str, object]], kubeconfig: Path) -> Entries:
    """The entries of a list of `{name: …, cluster: {…}}` by name; for equal names the first."""
    found: dict[str, Mapping[str, object]] = {}
    for content in contents:
        entries = content.get(kind) or []
        if not isinstance(entries, list) or not all(isinstance(one, dict) and "name" in one for one in entries):
            raise KubeconfigError(f"{kubeconfig}: {kind} is not a list of entries with names: correct it")
        for one in entries:
            inner = one.get(kind.removesuffix("s"))
            found.setdefault(str(one["name"]), inner if isinstance(inner, dict) else {})
    return found


T = TypeVar("T")

OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""The file with the namespace of the pod that the command runs in."""


class NoAnswerError(Exception):
    """Something is missing or impossible, or the cluster does not answer. The message is one line."""


@asynccontextmanager
async def cluster(target: ClusterTarget) -> AsyncIterator[tuple[Api, str]]:
    """Connect to the API server; yields the client and the namespace. Raises NoAnswerError, also for API errors in the block."""
    from kubernetes.aio.config import ConfigException

    file, context, namespace = _meant(target)
    async with AsyncExitStack() as stack:
        try:
            api, settings = await stack.enter_async_context(connect(file, context))
        except (ConfigException, OSError, ValueError) as error:
            raise NoAnswerError(f"{file or 'the service account'} cannot be used: {error}") from None
        try:
            with waiting_for(str(settings.host), still=lambda: api.server_time is None):
                yield api, namespace
        except UnavailableError as error:
            cure = "see whether it runs, or choose another cluster with --context"
            raise NoAnswerError(f"{settings.host} does not answer: {error}: {cure}") from None
        except NotFoundError as error:
            raise NoAnswerError(_missing(error, namespace)) from None
        except ApiError as error:
            raise NoAnswerError(f"{settings.host} refused: {error.message or error}") from None


def namespace_of(target: ClusterTarget) -> str:
    """The target's namespace, or the context's. Raises NoAnswerError."""
    return target.namespace or _meant(target)[2]


async def may(api: Api, verb: str, what: str, namespace: str, name: str = "", *, account: str | None = None) -> bool:
    """Whether an account has this right. `what`: `pods` or `consumergroups.baton.dev/status`; `account` None: the caller."""
    of, _, sub = what.partition("/")
    resource, _, group = of.partition(".")
    kind = "SelfSubjectAccessReview" if account is None else "SubjectAccessReview"
    attributes = {"namespace": namespace, "verb": verb, "group": group, "resource": resource, "subresource": sub, "name": name}
    spec = {"resourceAttributes": attributes, **({} if account is None else {"user": account})}
    version = "authorization.k8s.io/v1"
    made = await api.create(f"/apis/{version}/{kind.lower()}s", {"apiVersion": version, "kind": kind, "spec": spec})
    return bool((made.get("status") or {}).get("allowed"))


def _meant(target: ClusterTarget) -> tuple[Path | None, str | None, str]:
    """Kubeconfig and context (None: the pod's service account), and the namespace."""
    file = target.kubeconfig or default_kubeconfig()
    try:
        if file is None:
            return None, None, target.namespace or OWN_NAMESPACE.read_text(encoding="utf-8").strip()
        name, namespace = context_of(file, target.context)
    except KubeconfigError as error:
        raise NoAnswerError(str(error)) from None
    except OSError as error:
        raise NoAnswerError(
            f"{OWN_NAMESPACE}: {error.strerror}: use -n NAMESPACE, or --kubeconfig FILE for another cluster"
        ) from None
    return file, name, target.namespace or namespace


def _missing(error: NotFoundError, namespace: str) -> str:
    if error.reason != "NotFound" or "requested resource" in error.message:  # the path itself is unknown
        missing = "the kind ConsumerGroup is not installed in this cluster"
        return f"{missing}: install Baton there, or choose another cluster with --context"
    return f"{error.message} in namespace {namespace}: `baton status -A` lists all groups, -n NAMESPACE chooses another namespace"


def ask(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine and return its result. A NoAnswerError ends the command with a line and status 1."""
    try:
        return asyncio.run(work)
    except NoAnswerError as error:
        refuse(str(error))
