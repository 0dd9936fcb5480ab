"""What the API server refuses at apply, in words that name the field and the cure."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from baton.kube.errors import ApiError, UnavailableError
from tests.integration.operator.world import Cluster, Json, World
from tests.unit.queues.toy_tree import run_in, tree_with_the_toy
from tests.waiting import eventually

REDIS = {"type": "Redis", "redis": {"url": "redis://redis:6379"}}
QUEUE: Json = {"partitions": 4, "source": REDIS}
GROUP: Json = {"queues": [{"name": "orders"}]}
DEPLOYMENT = {"kind": "Deployment", "name": "d"}

NOT_CHECKED = re.compile(r"<nil>: Invalid value: \S+ some validation rules were not checked because the object was invalid")
"""The API server's own words beside a mistake that is no rule's, which no CRD can change."""


def redis(**redis: Any) -> Json:
    return {**QUEUE, "source": {"type": "Redis", "redis": redis}}


def kafka(**kafka: Any) -> Json:
    return {"source": {"type": "Kafka", "kafka": {"bootstrapServers": "k:9092", "topic": "t", **kafka}}}


def attributes(**entry: Any) -> Json:
    return {**QUEUE, "partitionAttributes": [{"partitions": "0", **entry}]}


def options(**options: Any) -> Json:
    return {**GROUP, "assignorOptions": options}


def scaled(mode: str, **spec: Any) -> Json:
    return {**GROUP, "scale": {"mode": mode, **spec}}


async def refused(world: World, plural: str, kind: str, spec: Json, said: list[str], name: str = "orders") -> None:
    with pytest.raises(ApiError) as refusal:
        await world._create_own(plural, kind, name, spec)
    told = NOT_CHECKED.sub("", refusal.value.message)
    assert all(part in told for part in said), told
    assert "<nil>" not in told


URL, HIDDEN = "spec.source.redis.url", "put the URL into a Secret"
NO_URL, NO_OPTION = "is not a Redis URL", "has an unknown option"
TLS, SENTINELS = "has an option for TLS: begin it with rediss://", "has an option for Sentinels: begin it with redis+sentinel://"
SERVERS = "spec.source.kafka.bootstrapServers: write host:port"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({**QUEUE, "rebalance": {"delaySeconds": -1}}, ["spec.rebalance.delaySeconds", "greater than or equal to 0"]),
        ({**QUEUE, "rebalance": {"maxHandoffSeconds": -1}}, ["spec.rebalance.maxHandoffSeconds", "greater than or equal to 0"]),
        (
            {**QUEUE, "source": {**REDIS, "kafka": {"bootstrapServers": "k:9092", "topic": "t"}}},
            ["spec.source.kafka", "belongs to spec.source.type Kafka only", "remove it"],
        ),
        ({**QUEUE, "source": {**REDIS, "external": {}}}, ["spec.source.external", "one queue has one source"]),
        ({**QUEUE, "source": {"type": "Redis"}}, ["spec.source.redis is missing", "urlSecretRef"]),
        (redis(url="redis://r", urlSecretRef={"name": "s"}), ["spec.source.redis", "exactly one of url and urlSecretRef"]),
        (redis(), ["exactly one of url and urlSecretRef"]),
        (redis(url="redis:6379"), [f"{URL} is not a Redis URL: write redis://", "rediss:// for TLS"]),
        (redis(url="redis://:secret@r"), [URL, HIDDEN]),
        (redis(url="redis://user:secret@r"), [f"{URL} holds a user or a password", "spec.source.redis.urlSecretRef"]),
        (redis(url="redis://r/?password=secret"), [f"{URL} holds a user or a password", HIDDEN]),
        (redis(url="redis://r/?db=1&password=secret"), ["holds a user or a password", HIDDEN]),
        (redis(url="rediss://r/?ssl_password=secret"), ["holds a user or a password", HIDDEN]),
        (redis(url="redis://r/?p%61ssword=secret"), [f"{URL} {NO_OPTION}"]),
        (redis(url="redis://r/?db=x"), [URL, "db and health_check_interval are numbers, as in ?db=1"]),
        (redis(url="redis://r/?decode_responses=true"), [NO_OPTION, "The options are db, client_name"]),
        (redis(url="redis://r/?db=1&protocol=3"), [NO_OPTION]),
        (redis(url="rediss://r/?ssl_cert_reqs=maybe"), [f"{NO_OPTION} or an invalid value"]),
        (redis(url="redis://r/?ssl_cert_reqs=none"), [TLS]),
        (redis(url="redis://r:port"), [NO_URL]),
        (redis(url="redis://r/orders"), [NO_URL]),
        (redis(url="redis+sentinel://s1,s2"), [NO_URL, "redis+sentinel://host1:26379,host2:26379/name-of-the-primary/0"]),
        (redis(url="redis+sentinel://s1,,s2/orders"), [NO_URL]),
        (redis(url="redis+cluster://r1,,r2"), [NO_URL, "redis+cluster://host1:6379,host2:6379"]),
        (redis(url="redis+cluster://r1/1"), [NO_URL]),
        (redis(url="redis+cluster://r1?db=1"), ["has the option db, but a Redis Cluster has only database 0: remove the option"]),
        (redis(url="redis+cluster://r1?sentinel_auth=true"), [SENTINELS]),
        (redis(url="redis+cluster://r1?ssl_cert_reqs=none"), [TLS]),
        (redis(url="redis+sentinel://s1/orders?ssl_cert_reqs=none"), [TLS]),
        (redis(url="redis://r/0?sentinel_auth=true"), [SENTINELS]),
        ({**QUEUE, "source": {"type": "Pulsar"}}, ["spec.source.type", "Redis", "Kafka", "External"]),
        ({"source": REDIS}, ["spec.partitions is missing"]),
        ({**QUEUE, "partitions": 0}, ["spec.partitions", "greater than or equal to 1"]),
        ({**QUEUE, "partitions": 2000}, ["at most 1024 partitions"]),
        ({"partitions": 4, **kafka()}, ["spec.partitions is discovered for Kafka", "remove it"]),
        (kafka(bootstrapServers="kafka"), [SERVERS]),
        (kafka(bootstrapServers="k:9092;l:9092"), [SERVERS]),
        (kafka(bootstrapServers="[fd00::1:9092"), [SERVERS]),
        (kafka(topic="or ders"), ["spec.source.kafka.topic"]),
        (kafka(deadLetterTopic="t"), ["spec.source.kafka.deadLetterTopic is the topic itself", "name another topic"]),
        (kafka(startFrom="Yesterday"), ["spec.source.kafka.startFrom", "Earliest", "Latest"]),
        (kafka(sasl={"user": "u"}), ["spec.source.kafka.sasl.passwordSecretRef"]),
        (
            kafka(sasl={"user": "u", "mechanism": "PLAIN", "passwordSecretRef": {"name": "s", "key": "k"}}),
            ["PLAIN sends the password unencrypted: set spec.source.kafka.tls"],
        ),
        ({**QUEUE, "accessType": "Sometimes"}, ["spec.accessType", "Exclusive", "NonExclusive"]),
        ({**QUEUE, "maxDeliveredUnacked": 0}, ["spec.maxDeliveredUnacked", "greater than or equal to 1"]),
        *(
            (
                {"partitions": 4, "source": {"type": "External"}, limit: 5},
                [f"spec.{limit} has no effect for External", "remove it"],
            )
            for limit in ("maxDeliveredUnacked", "maxRedeliveries")
        ),
        ({**QUEUE, "partitons": 4}, ["unknown field", "spec.partitons"]),
        (
            attributes(partitions="0-2,", weight=2),
            ["spec.partitionAttributes[0].partitions", "numbers and ranges, such as 0-49,60"],
        ),
        (attributes(partitions="0-2"), ["partitionAttributes[0]", "has neither zones nor weight"]),
        (attributes(weight=-1), ["partitionAttributes[0].weight"]),
        (attributes(weight=0.5), ["partitionAttributes[0].weight", "integer"]),
        (attributes(zones=["a", "a"]), ["zones[1]", "Duplicate value"]),
    ],
)
async def test_an_invalid_queue_is_refused_with_the_cure(empty: World, spec: Json, said: list[str]) -> None:
    await refused(empty, "partitionedqueues", "PartitionedQueue", spec, said)


async def test_brokers_may_have_any_kind_of_address(empty: World) -> None:
    spec = kafka(bootstrapServers="[fd00::1]:9092, 10.0.0.1:9092,kafka:9092")
    await empty._create_own("partitionedqueues", "PartitionedQueue", "orders", spec)


NO_ASSIGNOR, NO_ROOMS = "<domain>/<name>", "spec.assignorOptions.rooms is missing"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({}, ["spec.queues", "Required value"]),
        ({"queues": []}, ["spec.queues", "at least 1"]),
        ({"queues": [{"name": "orders"}, {"name": "orders"}]}, ["spec.queues[1]", "Duplicate value"]),
        ({**GROUP, "replicas": 2}, ["spec.replicas has no effect without spec.scale", "or remove both (kubectl patch cg NAME"]),
        ({**GROUP, "assignors": ["best"]}, ["spec.assignors[0]", "there is no such assignor", "solace", "range"]),
        ({**GROUP, "assignors": ["solace", "sticki"]}, ["spec.assignors[1]", NO_ASSIGNOR]),
        ({**GROUP, "assignors": ["Example.com/by-load"]}, ["spec.assignors[0]", NO_ASSIGNOR]),
        ({**GROUP, "assignors": ["example.com/"]}, ["spec.assignors[0]", NO_ASSIGNOR]),
        ({**GROUP, "assignors": ["solace", "solace"]}, ["spec.assignors", "names an assignor twice"]),
        ({**GROUP, "assignors": ["machine-room"]}, [NO_ROOMS, "name them"]),
        ({**options(within="machine-room"), "assignors": ["machine-room-nearby"]}, [NO_ROOMS]),
        (options(within="machine-room-nearby"), ["spec.assignorOptions.within", "is not the name of another assignor", "circle"]),
        (options(virtualNodes=0), ["spec.assignorOptions.virtualNodes"]),
        (options(partitionKey="{queue}"), ["the same for every partition: it needs {partition}"]),
        (options(partitionKey="{topic}-{partition}"), ["partitionKey", "the only placeholders are {queue} and {partition}"]),
        ({**GROUP, "rebalance": {"delaySeconds": -3}}, ["spec.rebalance.delaySeconds", "greater than or equal to 0"]),
        ({**GROUP, "rebalance": {"maxConcurrentHandoffs": -1}}, ["spec.rebalance.maxConcurrentHandoffs"]),
        ({**GROUP, "protocol": "Brave"}, ["spec.protocol", "Cooperative", "Eager"]),
        ({**GROUP, "replicas": 3}, ["spec.replicas", "set spec.scale.mode"]),
        (scaled("Workload"), ["spec.scale.targetRef is missing"]),
        (scaled("External"), ["spec.scale.targetRef is missing"]),
        (
            {**scaled("External", targetRef=DEPLOYMENT), "replicas": 3},
            ["spec.replicas has no effect", "scale the workload itself"],
        ),
        (
            scaled("External", steps="EvenShares", targetRef=DEPLOYMENT),
            ["spec.scale.steps has no effect", "set the mode to Workload"],
        ),
        (scaled("Spark", steps="Even"), ["spec.scale.steps", "EvenShares"]),
        (
            scaled("Spark", targetRef=DEPLOYMENT),
            ["spec.scale.targetRef", "is for spec.scale.mode Workload and External", "remove it"],
        ),
        (
            {**GROUP, "membership": {"sessionTimeoutSeconds": 60}},
            ["spec.membership.sessionTimeoutSeconds", "needs spec.membership.identityLabel"],
        ),
    ],
)
async def test_an_invalid_group_is_refused_with_the_cure(empty: World, spec: Json, said: list[str]) -> None:
    await refused(empty, "consumergroups", "ConsumerGroup", spec, said)


async def test_a_group_whose_name_is_no_label_value_is_refused(empty: World) -> None:
    said = ["is invalid: metadata.name: Invalid value: ", "choose a shorter one"]
    await refused(empty, "consumergroups", "ConsumerGroup", GROUP, said, name="o" * 64)


async def test_an_installed_assignor_is_accepted_by_its_name(empty: World) -> None:
    made = await empty.group("orders", assignors=["example.com/by-load", "sticky"])
    assert made["spec"]["assignors"] == ["example.com/by-load", "sticky"]


async def test_valid_options_and_attributes_are_accepted(empty: World) -> None:
    accepted = {"rooms": ["east"], "within": "example.com/by-load", "partitionKey": "{queue}/{partition}", "virtualNodes": 64}
    made = await empty.group("orders", assignors=["machine-room", "consistent-hash"], assignorOptions=accepted)
    assert made["spec"]["assignorOptions"] == accepted
    entries = [{"partitions": "0-4999,7000", "zones": ["east", "west"]}, {"partitions": "17", "weight": 5}]
    queue = await empty.external("orders", partitions=10_000, partitionAttributes=entries)
    assert queue["spec"]["partitionAttributes"] == entries


@pytest.mark.parametrize(
    "url",
    [
        "redis://redis.shop:6379/0",
        "redis://[::1]:6379",
        "rediss://redis_1/?db=3&ssl_ca_certs=/etc/tls/ca.pem&ssl_check_hostname=false&client_name=baton",
        "redis://r?socket_timeout=2.5",
        "redis+sentinel://s1.shop:26379,s2.shop,[::1]:5000/orders.1/3?sentinel_auth=true",
        "rediss+sentinel://s1/orders?ssl_check_hostname=false",
        "redis+cluster://r1.shop:7000,r2.shop,[::1]:5000/0?socket_timeout=2",
        "rediss+cluster://r1?ssl_check_hostname=false",
    ],
)
async def test_a_valid_url_is_accepted(empty: World, url: str) -> None:
    made = await empty.redis("orders", url)
    assert made["spec"]["source"]["redis"]["url"] == url


async def test_the_type_of_a_source_cannot_be_changed(empty: World) -> None:
    await empty.external("orders", partitions=4)
    with pytest.raises(ApiError, match=r"spec\.source\.type cannot change.*create a second PartitionedQueue"):
        await empty.change("partitionedqueues", "orders", {"spec": {"source": REDIS}})


async def test_defaults_are_filled_in(empty: World) -> None:
    queue = await empty._create_own("partitionedqueues", "PartitionedQueue", "orders", QUEUE)
    group = await empty._create_own("consumergroups", "ConsumerGroup", "orders", GROUP)
    assert queue["spec"] == {
        **QUEUE,
        "accessType": "NonExclusive",
        "rebalance": {"delaySeconds": 5, "maxHandoffSeconds": 3},
        "maxDeliveredUnacked": 10000,
    }
    assert group["spec"] == {
        **GROUP,
        "assignors": ["solace"],
        "protocol": "Cooperative",
        "rebalance": {"resyncSeconds": 20, "maxConcurrentHandoffs": 0},
        "membership": {"sessionTimeoutSeconds": 0},
        "paused": False,
        "approval": "Automatic",
    }


# -- A kind that was added by its folder and a line.


TOY_GROUP = "toy.example"
"""The other tests have the CRD as it is."""
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
QUEUES = f"/apis/{TOY_GROUP}/v1alpha1/namespaces/default/partitionedqueues"


@pytest.fixture
async def served(api: Cluster, tmp_path: Path) -> AsyncIterator[Cluster]:
    run_in(tree_with_the_toy(tmp_path), "-m", "baton.api.generate")
    text = (tmp_path / "crds" / "baton.dev_partitionedqueues.yaml").read_text()
    wanted = yaml.safe_load(text.replace("baton.dev", TOY_GROUP))
    await api.create(CRDS, wanted)

    async def there() -> bool:
        try:
            return await api.find(QUEUES) is not None
        except UnavailableError:  # its storage begins
            return False

    await eventually(there, "the API server serves the resource")
    yield api
    await api.delete(f"{CRDS}/{wanted['metadata']['name']}")


async def test_an_added_kind_of_queue_is_validated_by_the_api_server(served: Cluster) -> None:
    async def create(name: str, partitions: int = 4, **toy: Any) -> None:
        spec = {"source": {"type": "Toy", **toy}, "partitions": partitions}
        await served.create(
            QUEUES, {"apiVersion": f"{TOY_GROUP}/v1alpha1", "kind": "PartitionedQueue", "metadata": {"name": name}, "spec": spec}
        )

    await create("orders", toy={"server": "one"})
    for refused, said in (
        ({}, "spec.source.type Toy needs spec.source.toy.server"),
        ({"toy": {}}, "spec.source.toy.server: Required value"),
        ({"toy": {"server": "a@b"}}, "spec.source.toy.server has no user: take it out"),
        ({"toy": {"server": "one"}, "partitions": 9}, "a Toy queue has at most 8 partitions"),
        (
            {"toy": {"server": "one"}, "redis": {"url": "redis://redis"}},
            "spec.source.redis belongs to spec.source.type Redis only",
        ),
    ):
        with pytest.raises(ApiError) as error:
            await create("refused", **refused)
        assert error.value.status == 422 and said in str(error.value)
