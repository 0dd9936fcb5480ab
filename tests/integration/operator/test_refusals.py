"""What the API server refuses at apply, in words that name the field and the cure."""

import re
from typing import Any

import pytest

from baton.kube.errors import ApiError
from tests.integration.operator.world import World

REDIS = {"type": "Redis", "redis": {"url": "redis://redis:6379"}}
QUEUE: dict[str, Any] = {"partitions": 4, "source": REDIS}
GROUP: dict[str, Any] = {"queues": [{"name": "orders"}]}

NOT_CHECKED = re.compile(r"<nil>: Invalid value: \S+ some validation rules were not checked because the object was invalid")
"""The API server's own words beside a mistake that is no rule's, which no CRD can change."""


def own_words(refusal: ApiError) -> str:
    """What it says besides."""
    return NOT_CHECKED.sub("", refusal.message)


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
        (
            {**QUEUE, "source": {"type": "Redis", "redis": {"url": "redis://r", "urlSecretRef": {"name": "s"}}}},
            ["spec.source.redis", "exactly one of url and urlSecretRef"],
        ),
        ({**QUEUE, "source": {"type": "Redis", "redis": {}}}, ["exactly one of url and urlSecretRef"]),
        (
            {**QUEUE, "source": {"type": "Redis", "redis": {"url": "redis://:secret@r"}}},
            ["spec.source.redis.url", "put the URL into a Secret"],
        ),
        (
            {**QUEUE, "source": {"type": "Redis", "redis": {"url": "redis:6379"}}},
            ["spec.source.redis.url is not a Redis URL: write redis://", "rediss:// for TLS"],
        ),
        *(
            ({**QUEUE, "source": {"type": "Redis", "redis": {"url": url}}}, said)
            for url, said in (
                ("redis://user:secret@r", ["spec.source.redis.url holds a user or a password", "spec.source.redis.urlSecretRef"]),
                ("redis://r/?password=secret", ["spec.source.redis.url holds a user or a password", "put the URL into a Secret"]),
                ("redis://r/?db=1&password=secret", ["holds a user or a password", "put the URL into a Secret"]),
                ("rediss://r/?ssl_password=secret", ["holds a user or a password", "put the URL into a Secret"]),
                ("redis://r/?p%61ssword=secret", ["spec.source.redis.url has an unknown option"]),
                ("redis://r/?db=x", ["spec.source.redis.url", "db and health_check_interval are numbers, as in ?db=1"]),
                ("redis://r/?decode_responses=true", ["has an unknown option", "The options are db, client_name"]),
                ("redis://r/?db=1&protocol=3", ["has an unknown option"]),
                ("rediss://r/?ssl_cert_reqs=maybe", ["has an unknown option or an invalid value"]),
                ("redis://r/?ssl_cert_reqs=none", ["has an option for TLS: begin it with rediss://"]),
                ("redis://r:port", ["is not a Redis URL"]),
                ("redis://r/orders", ["is not a Redis URL"]),
                (
                    "redis+sentinel://s1,s2",
                    ["is not a Redis URL", "redis+sentinel://host1:26379,host2:26379/name-of-the-primary/0"],
                ),
                ("redis+sentinel://s1,,s2/orders", ["is not a Redis URL"]),
                ("redis+cluster://r1,,r2", ["is not a Redis URL", "redis+cluster://host1:6379,host2:6379"]),
                ("redis+cluster://r1/1", ["is not a Redis URL"]),
                ("redis+cluster://r1?db=1", ["has the option db, but a Redis Cluster has only database 0: remove the option"]),
                ("redis+cluster://r1?sentinel_auth=true", ["has an option for Sentinels: begin it with redis+sentinel://"]),
                ("redis+cluster://r1?ssl_cert_reqs=none", ["has an option for TLS: begin it with rediss://"]),
                ("redis+sentinel://s1/orders?ssl_cert_reqs=none", ["has an option for TLS: begin it with rediss://"]),
                ("redis://r/0?sentinel_auth=true", ["has an option for Sentinels: begin it with redis+sentinel://"]),
            )
        ),
        ({**QUEUE, "source": {"type": "Pulsar"}}, ["spec.source.type", "Redis", "Kafka", "External"]),
        ({"source": REDIS}, ["spec.partitions is missing"]),
        ({**QUEUE, "partitions": 0}, ["spec.partitions", "greater than or equal to 1"]),
        ({**QUEUE, "partitions": 2000}, ["at most 1024 partitions"]),
        (
            {"partitions": 4, "source": {"type": "Kafka", "kafka": {"bootstrapServers": "k:9092", "topic": "t"}}},
            ["spec.partitions is discovered for Kafka", "remove it"],
        ),
        *(
            ({"source": {"type": "Kafka", "kafka": {"bootstrapServers": "k:9092", "topic": "t", **kafka}}}, said)
            for kafka, said in (
                ({"bootstrapServers": "kafka"}, ["spec.source.kafka.bootstrapServers: write host:port"]),
                ({"bootstrapServers": "k:9092;l:9092"}, ["spec.source.kafka.bootstrapServers: write host:port"]),
                ({"bootstrapServers": "[fd00::1:9092"}, ["spec.source.kafka.bootstrapServers: write host:port"]),
                ({"topic": "or ders"}, ["spec.source.kafka.topic"]),
                ({"deadLetterTopic": "t"}, ["spec.source.kafka.deadLetterTopic is the topic itself", "name another topic"]),
                ({"startFrom": "Yesterday"}, ["spec.source.kafka.startFrom", "Earliest", "Latest"]),
                ({"sasl": {"user": "u"}}, ["spec.source.kafka.sasl.passwordSecretRef"]),
                (
                    {"sasl": {"user": "u", "mechanism": "PLAIN", "passwordSecretRef": {"name": "s", "key": "k"}}},
                    ["PLAIN sends the password unencrypted: set spec.source.kafka.tls"],
                ),
            )
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
            {**QUEUE, "partitionAttributes": [{"partitions": "0-2,", "weight": 2}]},
            ["spec.partitionAttributes[0].partitions", "numbers and ranges, such as 0-49,60"],
        ),
        ({**QUEUE, "partitionAttributes": [{"partitions": "0-2"}]}, ["partitionAttributes[0]", "has neither zones nor weight"]),
        ({**QUEUE, "partitionAttributes": [{"partitions": "0", "weight": -1}]}, ["partitionAttributes[0].weight"]),
        ({**QUEUE, "partitionAttributes": [{"partitions": "0", "weight": 0.5}]}, ["partitionAttributes[0].weight", "integer"]),
        ({**QUEUE, "partitionAttributes": [{"partitions": "0", "zones": ["a", "a"]}]}, ["zones[1]", "Duplicate value"]),
    ],
)
async def test_an_invalid_queue_is_refused_with_the_cure(empty: World, spec: dict[str, Any], said: list[str]) -> None:
    with pytest.raises(ApiError) as refusal:
        await empty._create_own("partitionedqueues", "PartitionedQueue", "orders", spec)
    told = own_words(refusal.value)
    assert all(part in told for part in said), told
    assert "<nil>" not in told


async def test_brokers_may_have_any_kind_of_address(empty: World) -> None:
    source = {"type": "Kafka", "kafka": {"bootstrapServers": "[fd00::1]:9092, 10.0.0.1:9092,kafka:9092", "topic": "t"}}
    await empty._create_own("partitionedqueues", "PartitionedQueue", "orders", {"source": source})


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({}, ["spec.queues", "Required value"]),
        ({"queues": []}, ["spec.queues", "at least 1"]),
        ({"queues": [{"name": "orders"}, {"name": "orders"}]}, ["spec.queues[1]", "Duplicate value"]),
        ({**GROUP, "replicas": 2}, ["spec.replicas has no effect without spec.scale", "or remove both (kubectl patch cg NAME"]),
        ({**GROUP, "assignors": ["best"]}, ["spec.assignors[0]", "there is no such assignor", "solace", "range"]),
        ({**GROUP, "assignors": ["solace", "sticki"]}, ["spec.assignors[1]", "<domain>/<name>"]),
        ({**GROUP, "assignors": ["Example.com/by-load"]}, ["spec.assignors[0]", "<domain>/<name>"]),
        ({**GROUP, "assignors": ["example.com/"]}, ["spec.assignors[0]", "<domain>/<name>"]),
        ({**GROUP, "assignors": ["solace", "solace"]}, ["spec.assignors", "names an assignor twice"]),
        ({**GROUP, "assignors": ["machine-room"]}, ["spec.assignorOptions.rooms is missing", "name them"]),
        (
            {**GROUP, "assignors": ["machine-room-nearby"], "assignorOptions": {"within": "machine-room"}},
            ["spec.assignorOptions.rooms is missing"],
        ),
        (
            {**GROUP, "assignorOptions": {"within": "machine-room-nearby"}},
            ["spec.assignorOptions.within", "is not the name of another assignor", "circle"],
        ),
        ({**GROUP, "assignorOptions": {"virtualNodes": 0}}, ["spec.assignorOptions.virtualNodes"]),
        ({**GROUP, "assignorOptions": {"partitionKey": "{queue}"}}, ["the same for every partition: it needs {partition}"]),
        (
            {**GROUP, "assignorOptions": {"partitionKey": "{topic}-{partition}"}},
            ["partitionKey", "the only placeholders are {queue} and {partition}"],
        ),
        ({**GROUP, "rebalance": {"delaySeconds": -3}}, ["spec.rebalance.delaySeconds", "greater than or equal to 0"]),
        ({**GROUP, "rebalance": {"maxConcurrentHandoffs": -1}}, ["spec.rebalance.maxConcurrentHandoffs"]),
        ({**GROUP, "protocol": "Brave"}, ["spec.protocol", "Cooperative", "Eager"]),
        ({**GROUP, "replicas": 3}, ["spec.replicas", "set spec.scale.mode"]),
        ({**GROUP, "scale": {"mode": "Workload"}}, ["spec.scale.targetRef is missing"]),
        ({**GROUP, "scale": {"mode": "External"}}, ["spec.scale.targetRef is missing"]),
        (
            {**GROUP, "replicas": 3, "scale": {"mode": "External", "targetRef": {"kind": "Deployment", "name": "d"}}},
            ["spec.replicas has no effect", "scale the workload itself"],
        ),
        (
            {**GROUP, "scale": {"mode": "External", "steps": "EvenShares", "targetRef": {"kind": "Deployment", "name": "d"}}},
            ["spec.scale.steps has no effect", "set the mode to Workload"],
        ),
        (
            {**GROUP, "scale": {"mode": "Spark", "steps": "Even"}},
            ["spec.scale.steps", "EvenShares"],
        ),
        (
            {**GROUP, "scale": {"mode": "Spark", "targetRef": {"kind": "Deployment", "name": "d"}}},
            ["spec.scale.targetRef", "is for spec.scale.mode Workload and External", "remove it"],
        ),
        (
            {**GROUP, "membership": {"sessionTimeoutSeconds": 60}},
            ["spec.membership.sessionTimeoutSeconds", "needs spec.membership.identityLabel"],
        ),
    ],
)
async def test_an_invalid_group_is_refused_with_the_cure(empty: World, spec: dict[str, Any], said: list[str]) -> None:
    with pytest.raises(ApiError) as refusal:
        await empty._create_own("consumergroups", "ConsumerGroup", "orders", spec)
    told = own_words(refusal.value)
    assert all(part in told for part in said), told
    assert "<nil>" not in told


async def test_an_installed_assignor_is_accepted_by_its_name(empty: World) -> None:
    made = await empty.group("orders", assignors=["example.com/by-load", "sticky"])
    assert made["spec"]["assignors"] == ["example.com/by-load", "sticky"]


async def test_valid_options_and_attributes_are_accepted(empty: World) -> None:
    options = {"rooms": ["east"], "within": "example.com/by-load", "partitionKey": "{queue}/{partition}", "virtualNodes": 64}
    made = await empty.group("orders", assignors=["machine-room", "consistent-hash"], assignorOptions=options)
    assert made["spec"]["assignorOptions"] == options
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


async def test_a_group_whose_name_is_no_label_value_is_refused(empty: World) -> None:
    with pytest.raises(ApiError) as refusal:
        await empty._create_own("consumergroups", "ConsumerGroup", "o" * 64, GROUP)
    assert re.search(r"is invalid: metadata\.name: Invalid value: .*choose a shorter one", refusal.value.message)


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
