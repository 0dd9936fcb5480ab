"""Whether Baton is installed as it should be: Kubernetes, the CRDs, operators, leaders, and rights. Pure."""

import re
from collections.abc import Iterator, Mapping

import baton
from baton.api.crd import crds
from baton.cli.check_result import CheckResult, Verdict, unread
from baton.cli.cluster_facts import ClusterFacts, Json
from baton.model.names import OPERATOR_SELECTOR
from baton.model.wording import counted

OLDEST_KUBERNETES = (1, 29)
"""As the chart's kubeVersion."""


def kubernetes(facts: ClusterFacts) -> Iterator[CheckResult]:
    """Its version is one that Baton names."""
    found = re.match(r"v(\d{1,3})\.(\d{1,3})", facts.kubernetes)
    oldest = ".".join(map(str, OLDEST_KUBERNETES))
    if found is None:
        yield CheckResult(Verdict.UNKNOWN, "Kubernetes", "the API server does not say its version")
    elif (int(found[1]), int(found[2])) < OLDEST_KUBERNETES:
        yield CheckResult(Verdict.FAILED, "Kubernetes", f"is {facts.kubernetes}", f"upgrade it: Baton needs {oldest} or later")
    else:
        yield CheckResult(Verdict.OK, "Kubernetes", f"is {facts.kubernetes}; Baton needs {oldest} or later")


def resources(facts: ClusterFacts) -> Iterator[CheckResult]:
    """The resources are installed, as this release has them."""
    if "resources" in facts.unread:
        yield unread(facts.unread["resources"], "CRDs", "")
        return
    for wanted in crds():
        name = wanted["metadata"]["name"]
        there = facts.resources.get(name)
        if there is None:
            yield CheckResult(
                Verdict.FAILED, f"CRD {name}", "is not installed", "kubectl apply --server-side -f crds/ of this release"
            )
        elif _established(there) is not True:
            yield CheckResult(Verdict.FAILED, f"CRD {name}", "is not established", f"kubectl describe crd {name} says why")
        elif _schemas(there) != _schemas(wanted):
            yield CheckResult(
                Verdict.FAILED,
                f"CRD {name}",
                f"is not that of release {baton.__version__}, which this command is of",
                "kubectl apply --server-side -f crds/ of the operator's release, as helm upgrade leaves CRDs as they are; or "
                "install the command of that release",
            )
        else:
            yield CheckResult(Verdict.OK, f"CRD {name}", f"is that of release {baton.__version__}")


def _established(crd: Json) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions)


def _schemas(crd: Json) -> Mapping[str, object]:
    return {one["name"]: one.get("schema") for one in crd["spec"]["versions"]}


def operators(facts: ClusterFacts) -> Iterator[CheckResult]:
    """An operator runs, of this command's release."""
    if "operators" in facts.unread:
        yield unread(facts.unread["operators"], "operator", "Deployments")
        return
    if not facts.operators:
        yield CheckResult(
            Verdict.WARNING,
            "operator",
            f"no Deployment has the labels {OPERATOR_SELECTOR}: it may run elsewhere",
            "helm install baton charts/baton -n baton-system --create-namespace, unless it runs by other means",
        )
    for one in facts.operators:
        metadata, status = one["metadata"], one.get("status") or {}
        name = f"operator {metadata['namespace']}/{metadata['name']}"
        ready, wanted = status.get("readyReplicas") or 0, (one.get("spec") or {}).get("replicas", 1)
        version = (metadata.get("labels") or {}).get("app.kubernetes.io/version")
        logs = f"kubectl logs -n {metadata['namespace']} deploy/{metadata['name']} says why"
        if not ready:
            yield CheckResult(Verdict.FAILED, name, f"none of {counted(wanted, 'pod is', 'pods is')} Ready", logs)
        elif ready < wanted:
            yield CheckResult(Verdict.WARNING, name, f"{ready} of {counted(wanted, 'pod is', 'pods are')} Ready", logs)
        else:
            yield CheckResult(Verdict.OK, name, f"{counted(ready, 'pod is', 'pods are')} Ready")
        if version is not None and version != baton.__version__:
            cure = f"pip install baton-operator=={version}, or upgrade the operator to {baton.__version__}"
            yield CheckResult(Verdict.WARNING, name, f"is release {version}, and this command {baton.__version__}", cure)


def leaders(facts: ClusterFacts) -> Iterator[CheckResult]:
    """Whoever wrote the ledgers leads."""
    seen = {look.leader.lease: look.leader for look in facts.groups if look.leader is not None}
    for lease, leader in sorted(seen.items()):
        namespace = lease.partition("/")[0]
        about = f"leader {lease}"
        if not leader.readable:
            yield CheckResult(Verdict.UNKNOWN, about, "you may not read this Lease", f"ask for get on leases in {namespace}")
        elif leader.gone(facts.now):
            cure = f"kubectl get pods -n {namespace} -l {OPERATOR_SELECTOR}: does one run?"
            yield CheckResult(Verdict.FAILED, about, "nobody holds it, or its holder does not renew it", cure)
        else:
            yield CheckResult(Verdict.OK, about, f"is held by {leader.holder}")


def own_rights(facts: ClusterFacts) -> Iterator[CheckResult]:
    """What whoever asks may do."""
    if "own rights" in facts.unread:
        yield unread(facts.unread["own rights"], "your rights", "")
        return
    missing = [right for right in facts.own_rights if not right.allowed]
    for right in missing:
        cure = f"ask for it, if you need it: kubectl auth can-i {right.verb} {right.resource} -n {right.namespace}"
        yield CheckResult(Verdict.WARNING, "your rights", f"you may not {right.text}: {right.purpose}", cure)
    if facts.own_rights and not missing:
        yield CheckResult(Verdict.OK, "your rights", "are enough for all commands")


def operator_rights(facts: ClusterFacts) -> Iterator[CheckResult]:
    """What the operator's account may do where there are groups."""
    if "operator rights" in facts.unread:
        yield unread(facts.unread["operator rights"], "the operator's rights", "")
        return
    missing = [right for right in facts.operator_rights if not right.allowed]
    for right in missing:
        cure = "helm upgrade with the chart's own roles (rbac.create), and the namespace in watchNamespaces if it is set"
        yield CheckResult(Verdict.FAILED, "the operator's rights", f"{right.account} may not {right.text}: {right.purpose}", cure)
    if facts.operator_rights and not missing:
        yield CheckResult(Verdict.OK, "the operator's rights", "it may do what it has to in the namespaces of the groups")
