"""What befalls a fleet, made to happen."""

from __future__ import annotations

from tests.simulation.seeds.life import Event
from tests.simulation.seeds.queues import UP
from tests.simulation.seeds.tenant import Tenant
from tests.simulation.seeds.world import World


def happen(world: World, event: Event) -> None:  # noqa: C901 - one case for each kind of event
    """One event. What does not apply (nobody of that name is there) does nothing."""
    tenant, arguments = world.tenants[event.where], event.arguments
    pod = tenant.pods.get(arguments[0]) if arguments and isinstance(arguments[0], str) else None
    match event.what, arguments:
        case "join", (name, facts):
            tenant.join(name, **facts)
        case "leave", _ if pod is not None:
            tenant.remove(pod)
        case "flap", (name, seconds, facts) if pod is not None:
            facts = {**facts, "instance": pod.instance, "subscribed": pod.subscribed}
            tenant.remove(pod)
            world.later(seconds, lambda: tenant.join(name, **facts))
        case "terminate", (_, grace) if pod is not None:
            tenant.terminate(pod, grace)
        case "replace", (_, name, seconds, facts) if pod is not None:  # a rolling restart with surge
            tenant.join(name, **facts)
            world.later(seconds, lambda: tenant.terminate(pod, 30))
        case "stop", (_, seconds) if pod is not None:
            tenant.stop(pod, seconds)
        case "restart in place", _ if pod is not None:
            world.say(f"{pod.name}'s container restarts in place")
            pod.restart_in_place()
        case "subscribe", (_, queues) if pod is not None and len(tenant.servers) > 1:
            world.say(f"{pod.name} reads {queues}")
            tenant.subscribe(pod, queues)
        case "resize", (queue, partitions):
            tenant.queue_changed(queue, partitions=partitions)
        case "exclusive", (queue,):
            tenant.queue_changed(queue, accessType="NonExclusive" if tenant.exclusive(queue) else "Exclusive")
        case "queue", (queue, named):
            tenant.name_queues(tenant.named | {queue} if named else tenant.named - {queue})
        case "handoff", (queue, seconds):
            tenant.queue_changed(queue, rebalance={"maxHandoffSeconds": seconds})
        case "spec", (change,):
            tenant.change(**change)
            tenant.checks.moves.fewest &= tenant.spec["assignors"] == ["solace"]
        case "request", (number,):
            tenant.request(number)
        case "crash", (seconds,):
            if (operator := world.leader) is not None:
                operator.kill()
                world.replace(operator, seconds)
        case "another operator", ():
            if len(world.living) < 3:
                world.new_operator()
        case "stop the leader", (seconds,):
            if (operator := world.leader) is not None:
                operator.stop()
                world.later(seconds, operator.wake)
        case "window", (window, seconds):
            world.say(f"for {seconds} s: {window}")
            world.troubles.begin(window)
            world.later(seconds, world.troubles.end, window)
        case "drop the watches", (compact,):
            world.say(f"all watches break{', and the past is forgotten' if compact else ''}")
            if compact:
                world.server.compact()
            for operator in world.living:
                operator.drop_watches()
        case "late news", (late, seconds):
            world.say(f"for {seconds} s what the watches tell is {late} s late")
            world.troubles.late = late
            world.later(seconds, setattr, world.troubles, "late", 0.0)
        case "touch the ledger", ():
            tenant.touch_ledger(str(world.now))
        case "flicker", (_, seconds) if pod is not None:
            world.say(f"{pod.name} is not Ready for {seconds} s")
            tenant.ready(pod, False)
            world.later(seconds, tenant.ready, pod, True)
        case "unreachable", (queue, state, seconds):
            _server_state(tenant, queue, state)
            world.later(seconds, _server_state, tenant, queue, UP)
        case "restart the server", (queue, forgets):
            world.say(f"the server of {queue} restarts and forgets {sorted(forgets)}")
            tenant.servers[queue].restart(set(forgets))
        case "lose the ledger", ():
            for one in world.operators:
                one.kill()
            tenant.delete_ledger()
            world.later(2.0, world.new_operator)
        case "lose the queue", (queue, seconds):
            tenant.delete_queue(queue)
            world.later(seconds, tenant.make_queue, queue)
        case "a rival", ():
            tenant.make_rival()
        case "approve", ():
            tenant.approve()
        case "delete the namespace", ():
            tenant.delete_namespace()
        case "mutate", (number,):
            tenant.neighbour.act(number)
        case "local window", (window,):
            world.say(f"from now on: {window}")
            world.troubles.begin(window)
        case "quota", ():
            world.say(f"{tenant.namespace} has no room for ConfigMaps")
            tenant.limit_config_maps()
        case "hostile queue", (queue, state):
            _server_state(tenant, queue, state)


def _server_state(tenant: Tenant, queue: str, state: str) -> None:
    tenant.world.say(f"the server of {queue} is {state}")
    tenant.servers[queue].state = state
