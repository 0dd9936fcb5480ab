"""`baton status`: what is going on, on one screen."""

import asyncio
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from baton.kube.api import Api, ApiError, UnavailableError, connect, core_path, group_path
from baton.kube.objects import GROUP_VERSION
from baton.kube.times import to_seconds
from baton.model.ledger import LedgerError, MemberEntry
from baton.model.names import LEDGER_GROUP_KEY, ledger_name
from baton.model.ranges import format_numbers

Json = dict[str, Any]


@click.command()
@click.argument("group", required=False)
@click.option("--namespace", "-n", help="The group's namespace. Default: the kubeconfig's.")
@click.option("--all-namespaces", "-A", is_flag=True, help="All groups of all namespaces.")
@click.option("--json", "as_json", is_flag=True, help="For programs: one JSON object (a list without GROUP).")
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Whom to ask. Default: as kubectl finds it.",
)
def status(group: str | None, namespace: str | None, all_namespaces: bool, as_json: bool, kubeconfig: Path | None) -> None:
    """Show a ConsumerGroup: its state, who owns what, and what is changing hands. Without GROUP: all groups, a line each."""
    from kubernetes.aio.config import ConfigException

    if group is not None and all_namespaces:
        raise click.UsageError("give GROUP or --all-namespaces, not both")
    try:
        asyncio.run(_show(group, namespace, all_namespaces, as_json, kubeconfig))
    except (ApiError, UnavailableError, ConfigException) as error:
        click.echo(f"baton status: {error}", err=True)
        sys.exit(1)


async def _show(group: str | None, namespace: str | None, everywhere: bool, as_json: bool, kubeconfig: Path | None) -> None:
    from baton.cli.operator import default_kubeconfig

    file = kubeconfig or default_kubeconfig()
    async with connect(file) as (api, _):
        where = namespace or _namespace(file)
        if group is None:
            found = (await api.get(group_path(GROUP_VERSION, None if everywhere else where, "consumergroups")))["items"]
            views = [view(one, {}) for one in found]
            if as_json:
                click.echo(json.dumps([{key: value for key, value in one.items() if key != "owners"} for one in views]))
            else:
                _print_list(views, where if not everywhere else None)
            return
        one = await _one(api, where, group)
        if as_json:
            click.echo(json.dumps(one))
        else:
            _print_group(one, time.time())


async def _one(api: Api, namespace: str, group: str) -> Json:
    resource = await api.get(group_path(GROUP_VERSION, namespace, "consumergroups", group))
    ledger = await api.find(core_path(namespace, "configmaps", ledger_name(group)))
    return view(resource, (ledger or {}).get("data") or {})


def view(resource: Mapping[str, Any], ledger: Mapping[str, str]) -> Json:
    """All that is shown of a group, from its manifest and its ledger's data."""
    told = resource.get("status") or {}
    return {
        "namespace": resource["metadata"]["namespace"],
        "group": resource["metadata"]["name"],
        "state": told.get("state"),
        "holdUntil": told.get("holdUntil"),
        **{
            name: told.get(name)
            for name in ("partitions", "members", "standbys", "moving", "moves", "deadlineMisses", "assignor")
        },
        "conditions": {
            one["type"]: {"status": one["status"], "reason": one["reason"], "message": one.get("message", "")}
            for one in told.get("conditions") or ()
        },
        "owners": {key: _entry(text) for key, text in sorted(ledger.items()) if key != LEDGER_GROUP_KEY},
        "handoffs": told.get("handoffs") or [],
    }


def _entry(text: str) -> Json:
    try:
        entry = MemberEntry.from_json(text)
    except LedgerError as error:
        return {"problem": str(error)}
    return {
        "active": entry.active,
        "owned": {queue: format_numbers(grants) for queue, grants in entry.owned.items() if grants},
        "revoking": {queue: format_numbers(grants) for queue, grants in entry.revoking.items() if grants},
        "count": sum(map(len, entry.owned.values())),
    }


def _namespace(kubeconfig: Path | None) -> str:
    """The context's, as kubectl takes it; in a pod the pod's own."""
    import yaml

    if kubeconfig is None:
        return Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace").read_text().strip()
    raw = yaml.safe_load(kubeconfig.read_text()) or {}
    contexts = {one["name"]: one.get("context") or {} for one in raw.get("contexts") or ()}
    return str((contexts.get(raw.get("current-context")) or {}).get("namespace") or "default")


def _print_list(views: list[Json], namespace: str | None) -> None:
    from rich.table import Table

    console = _console()
    if not views:
        where = f"namespace {namespace}" if namespace else "the cluster"
        console.print(f"There is no ConsumerGroup in {where}.")
        return
    table = Table(box=None, pad_edge=False)
    for name in ("NAMESPACE", "GROUP", "STATE", "PARTITIONS", "MEMBERS", "MOVING", "READY"):
        table.add_column(name)
    for one in views:
        ready = one["conditions"].get("Ready", {})
        numbers = [str(one[name] if one[name] is not None else "") for name in ("partitions", "members", "moving")]
        table.add_row(one["namespace"], one["group"], one["state"] or "", *numbers, ready.get("reason", ""))
    console.print(table)


def _print_group(one: Json, now: float) -> None:
    from rich.table import Table

    console = _console()
    until = f" for {to_seconds(one['holdUntil']) - now:.0f} s more" if one["holdUntil"] else ""
    console.print(f"[bold]{one['namespace']}/{one['group']}[/]: [bold]{one['state'] or 'not seen by an operator yet'}[/]{until}")
    console.print(
        f"{one['partitions'] or 0} partitions, {one['members'] or 0} members ({one['standbys'] or 0} standing by), "
        f"{one['moving'] or 0} moving; "
        f"{one['moves'] or 0} moves and {one['deadlineMisses'] or 0} deadline misses so far; assignor {one['assignor'] or '-'}"
    )
    for kind, condition in one["conditions"].items():
        if condition["status"] != "True" and kind != "Rebalancing":
            colour = "red" if kind == "Ready" else "yellow"
            console.print(f"[{colour}]{kind} is {condition['status']}: {condition['reason']}[/]: {condition['message']}")
    table = Table(box=None, pad_edge=False)
    for name in ("MEMBER", "ROLE", "N", "OWNS", "LETS GO OF"):
        table.add_column(name)
    for member, entry in one["owners"].items():
        if "problem" in entry:
            table.add_row(member, "?", "", entry["problem"], "")
            continue
        role = "active" if entry["active"] else "standby"
        table.add_row(member, role, str(entry["count"]), _queues(entry["owned"]), _queues(entry["revoking"]))
    if one["owners"]:
        console.print(table)
    for move in one["handoffs"]:
        left = f", {max(0.0, to_seconds(move['deadline']) - now):.0f} s left" if move.get("deadline") else ""
        console.print(
            f"{move['queue']} {move['partition']}: {move.get('from', 'nobody')} -> {move.get('to', 'nobody')} at epoch "
            f"{move['epoch']}{left}" + (f" ({move['reason']})" if move.get("reason") else "")
        )


def _console() -> Any:
    """As wide as the terminal; what is piped is never cut."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else 240)


def _queues(of: Mapping[str, str]) -> str:
    return "  ".join(f"{queue} {numbers}" for queue, numbers in of.items())
