"""What befalls a fleet, made to happen."""

from __future__ import annotations

from tests.simulation.seeds.environment import Environment
from tests.simulation.seeds.life import Event
from tests.simulation.seeds.queues import UP
from tests.simulation.seeds.tenant import Tenant


def happen(environment: Environment, event: Event) -> None:  # noqa: C901 - one case for each kind of event
    """One event. What does not apply (nobody of that name is there) does nothing."""
    tenant, arguments = environment.tenants[event.where], event.arguments
    pod = tenant.pods.get(arguments[0]) if arguments and isinstance(arguments[0], str) else None
    match event.what, arguments:
        case "join", (name, facts):
            tenant.join(name, **facts)
        case "leave", _ if pod is not None:
            tenant.remove(pod)
        case "flap", (name, seconds, facts) if pod is not None:
            facts = {**facts, "instance": pod.instance, "subscribed": pod.subscribed}
            tenant.remove(pod)
            environment.later(seconds, lambda: tenant.join(name, **facts))
        case "terminate", (_, grace) if pod is not None:
            tenant.terminate(pod, grace)
        case "replace", (_, name, seconds, facts) if pod is not None:  # a rolling restart with surge
            tenant.join(name, **facts)
            environment.later(seconds, lambda: tenant.terminate(pod, 30))
        case "stop", (_, seconds) if pod is not None:
            tenant.stop(pod, seconds)
        case "restart in place", _ if pod is not None:
            environment.say(f"{pod.name}'s container restarts in place")
            pod.restart_in_place()
        case "subscribe", (_, queues) if pod is not None and len(tenant.servers) > 1:
            environment.say(f"{pod.name} reads {queues}")
            tenant.subscribe(pod, queues)
        case "drain", (_, draining) if pod is not None:
            tenant.drain(pod, draining)
        case "identify", (_, instance) if pod is not None:
            tenant.identify(pod, instance)
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
        case "rest", (seconds,):
            tenant.change(paused=True)
            environment.later(seconds, lambda: tenant.change(paused=False))
        case "request", (number,):
            tenant.request(number)
        case "crash", (seconds,):
            if (operator := environment.leader) is not None:
                operator.kill()
                environment.replace(operator, seconds)
        case "another operator", ():
            if len(environment.living) < 3:
                environment.new_operator()
        case "stop the leader", (seconds,):
            if (operator := environment.leader) is not None:
                operator.stop()
                environment.later(seconds, operator.wake)
        case "window", (window, seconds):
            environment.say(f"for {seconds} s: {window}")
            environment.troubles.begin(window)
            environment.later(seconds, environment.troubles.end, window)
        case "drop the watches", (compact,):
            environment.say(f"all watches break{', and the past is forgotten' if compact else ''}")
            if compact:
                environment.server.compact()
            for operator in environment.living:
                operator.drop_watches()
        case "late news", (late, seconds):
            environment.say(f"for {seconds} s what the watches tell is {late} s late")
            environment.troubles.late = late
            environment.later(seconds, setattr, environment.troubles, "late", 0.0)
        case "touch the ledger", ():
            tenant.touch_ledger(str(environment.now))
        case "flicker", (_, seconds) if pod is not None:
            environment.say(f"{pod.name} is not Ready for {seconds} s")
            tenant.ready(pod, False)
            environment.later(seconds, tenant.ready, pod, True)
        case "unreachable", (queue, state, seconds):
            _server_state(tenant, queue, state)
            environment.later(seconds, _server_state, tenant, queue, UP)
        case "restart the server", (queue, forgets):
            environment.say(f"the server of {queue} restarts and forgets {sorted(forgets)}")
            tenant.servers[queue].restart(set(forgets))
        case "lose the ledger", ():
            for one in environment.operators:
                one.kill()
            tenant.delete_ledger()
            environment.later(2.0, environment.new_operator)
        case "lose the queue", (queue, seconds):
            tenant.delete_queue(queue)
            environment.later(seconds, tenant.make_queue, queue)
        case "a rival", ():
            tenant.make_rival()
        case "approve", ():
            tenant.approve()
        case "delete the namespace", ():
            tenant.delete_namespace()
        case "mutate", (number,):
            tenant.neighbour.act(number)
        case "local window", (window,):
            environment.say(f"from now on: {window}")
            environment.troubles.begin(window)
        case "quota", ():
            environment.say(f"{tenant.namespace} has no room for ConfigMaps")
            tenant.limit_config_maps()
        case "hostile queue", (queue, state):
            _server_state(tenant, queue, state)


def _server_state(tenant: Tenant, queue: str, state: str) -> None:
    tenant.environment.say(f"the server of {queue} is {state}")
    tenant.servers[queue].state = state
