"""Users, passwords, certificates and ACLs: what works, and the messages if something is missing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import ScramMechanism

from baton.model.ids import Epoch, QueueName, Uid
from baton.queues.kafka.adapter import KafkaQueue, TopicToOpen
from baton.queues.kafka.address import KafkaAddress
from baton.queues.kafka.consumer_side import KafkaConsumerSide
from baton.queues.kafka.operator_side import open_queue
from baton.queues.kafka.reader import KafkaReader
from baton.queues.kafka.resource import KafkaSource
from baton.queues.opening import QueueToOpen, SecretText
from baton.queues.output import FinishedTogether, Output
from baton.queues.protocol import QueueAdapter, QueueUnreachable
from tests.integration.kafka.conftest import GROUP, MakeQueue, Queue
from tests.integration.kafka.reading import read
from tests.kafka_broker import KafkaBroker
from tests.kafka_broker.jars import USERS
from tests.waiting import PATIENCE


class Acls:
    """A user's rights, as an administrator sets them."""

    def __init__(self, broker: KafkaBroker) -> None:
        self._admin: AdminClient = broker.admin()

    def allow(self, user: str, kind: ResourceType, name: str, operation: AclOperation, *, prefixed: bool = False) -> None:
        pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
        rule = AclBinding(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
        for future in self._admin.create_acls([rule]).values():
            future.result(PATIENCE)


@pytest.fixture
def acls(broker: KafkaBroker) -> Acls:
    return Acls(broker)


def as_user(queue: Queue, user: str, *, tls: bool = False, password: str | None = None) -> KafkaQueue:
    port = queue.broker.tls_port if tls else queue.broker.sasl_port
    ca = queue.broker.ca.read_text() if tls else ""
    where = KafkaAddress((f"127.0.0.1:{port}",), user, password or USERS[user], tls=tls, ca=ca)
    return operator_at(queue, where)


def operator_at(queue: Queue, address: KafkaAddress, topic: str = "") -> KafkaQueue:
    """Return an operator's side with this address of the broker."""
    return KafkaQueue(address, queue.group, TopicToOpen(topic=topic or queue.topic, queue="orders"), GROUP)


async def test_a_client_certificate_names_the_user_and_a_missing_one_is_reported(
    make: MakeQueue, acls: Acls, broker: KafkaBroker
) -> None:
    queue = make()
    allow_work(acls, "CN=nobody", queue)
    queue.send("1")
    servers, pem = (f"127.0.0.1:{broker.mutual_port}",), broker.keys.read_text()
    trusting = KafkaAddress(servers, tls=True, ca=broker.ca.read_text())
    assert "give a client certificate and its key" in await refusal(operator_at(queue, trusting))
    showing = operator_at(queue, replace(trusting, certificate=pem, key=pem))
    await showing.ensure(None)
    await showing.grant(0, Uid("a"), Epoch(1))
    async with pod(f"kafkas://{servers[0]}/?group={queue.group}&ca={broker.ca}&cert={broker.keys}&key={broker.keys}") as reader:
        (entry,) = await asyncio.to_thread(read, reader, 0, 1, 1)
        await asyncio.to_thread(reader.ack, 0, Epoch(1), [entry.offset])
    assert (await showing.check()).lag[0] == 0
    await showing.close()


async def test_a_certificate_that_does_not_match_its_key_is_reported(queue: Queue) -> None:
    broker = queue.broker
    wrong = KafkaAddress((f"127.0.0.1:{broker.mutual_port}",), tls=True, certificate=broker.ca.read_text(), key="none")
    assert "the client certificate and its key do not match" in await refusal(operator_at(queue, wrong))


@asynccontextmanager
async def pod(url: str) -> AsyncIterator[KafkaReader]:
    """A reader with this address."""
    reader = KafkaConsumerSide(url, "shop/orders-group", Uid("a")).reader(QueueName("orders"))
    try:
        yield reader
    finally:
        await asyncio.to_thread(reader.close)


def allow_work(acls: Acls, user: str, queue: Queue) -> None:
    """The rights that the guide names."""
    acls.allow(user, ResourceType.TOPIC, queue.topic, AclOperation.READ)
    acls.allow(user, ResourceType.GROUP, queue.group, AclOperation.READ)
    acls.allow(user, ResourceType.TRANSACTIONAL_ID, f"baton.{queue.group}/", AclOperation.WRITE, prefixed=True)


@pytest.mark.parametrize("tls", [False, True])
async def test_operator_and_pod_work_with_the_guides_rights(make: MakeQueue, acls: Acls, tls: bool, tmp_path: Path) -> None:
    queue = make()
    allow_work(acls, "operator", queue)
    allow_work(acls, "pod", queue)
    queue.send("1", "2")
    operator = as_user(queue, "operator", tls=tls)
    await operator.ensure(None)
    await operator.grant(0, Uid("a"), Epoch(1))
    ca = f"&ca={queue.broker.ca}" if tls else ""
    scheme, port = ("kafkas", queue.broker.tls_port) if tls else ("kafka", queue.broker.sasl_port)
    url = f"{scheme}://pod:{quote(USERS['pod'])}@127.0.0.1:{port}/?group={queue.group}{ca}&fetch.wait.max.ms=50"
    async with pod(url) as reader:
        entries = await asyncio.to_thread(read, reader, 0, 1, 2)
        await asyncio.to_thread(reader.ack, 0, Epoch(1), [entry.offset for entry in entries])
    assert (await operator.check()).lag == {0: 0, 1: 0, 2: 0, 3: 0}
    await operator.close()


@pytest.mark.parametrize(("mechanism", "tls"), [("SCRAM-SHA-256", False), ("SCRAM-SHA-256", True), ("PLAIN", True)])
async def test_each_sasl_mechanism_works_and_a_wrong_password_is_named_with_its_place(
    make: MakeQueue, acls: Acls, tmp_path: Path, mechanism: str, tls: bool
) -> None:
    queue = make(1)
    broker = queue.broker
    if mechanism == "SCRAM-SHA-256":
        broker.make_users(ScramMechanism.SCRAM_SHA_256)
    for user in ("operator", "pod"):
        allow_work(acls, user, queue)
    queue.send("1")
    server = f"127.0.0.1:{broker.tls_port if tls else broker.sasl_port}"
    secrets = {"password": USERS["operator"], "ca.crt": broker.ca.read_text()}

    async def read_secret(name: str, key: str, *, named_by: str, holds: str) -> SecretText:
        return SecretText(secrets[key], f"Secret shop/{name}")

    async def opened() -> QueueAdapter:
        sasl = {"mechanism": mechanism, "user": "operator", "passwordSecretRef": {"name": "orders-kafka"}}
        spec: dict[str, object] = {"bootstrapServers": server, "topic": queue.topic, "groupId": queue.group, "sasl": sasl}
        spec |= {"tls": {"caSecretRef": {"name": "orders-kafka"}}} if tls else {}
        return await open_queue(
            QueueToOpen("shop", "orders", KafkaSource.model_validate(spec), 0, 0, read_secret, tmp_path), GROUP
        )

    def url(password: str) -> str:
        ca = f"&ca={broker.ca}" if tls else ""
        return f"{'kafkas' if tls else 'kafka'}://pod:{quote(password)}@{server}/?mechanism={mechanism}&group={queue.group}{ca}"

    operator = await opened()
    await operator.ensure(None)
    await operator.grant(0, Uid("a"), Epoch(1))
    async with pod(url(USERS["pod"])) as reader:
        (entry,) = await asyncio.to_thread(read, reader, 0, 1, 1)
        await asyncio.to_thread(reader.ack, 0, Epoch(1), [entry.offset])
    assert (await operator.check()).lag == {0: 0}
    await operator.close()
    async with pod(url("wrong")) as stranger:
        with pytest.raises(
            QueueUnreachable, match=rf"refuses the user pod by {mechanism}: correct the user.* in BATON_KAFKA_URL"
        ):
            await asyncio.to_thread(stranger.read, 0, Epoch(1), 1)
    secrets["password"] = "wrong"
    wrong = await opened()
    with pytest.raises(QueueUnreachable) as told:
        await wrong.ensure(None)
    await wrong.close()
    said = str(told.value)
    assert f"refuses the user operator by {mechanism}: correct the password under the key password of the Secret " in said
    assert "Secret shop/orders-kafka, or the user or the mechanism in spec.source.kafka.sasl of queue orders" in said


async def refusal(operator: KafkaQueue) -> str:
    try:
        await operator.ensure(None)
        await operator.check()
        await operator.grant(0, Uid("a"), Epoch(1))
    except QueueUnreachable as problem:
        return str(problem)
    finally:
        await operator.close()
    return ""


async def test_each_missing_right_is_named_with_its_cure(make: MakeQueue, acls: Acls) -> None:
    queue = make()
    assert f"user stranger may not READ the group {queue.group}: allow it by an ACL" in await refusal(as_user(queue, "stranger"))
    acls.allow("stranger", ResourceType.GROUP, queue.group, AclOperation.READ)
    assert f"user stranger may not READ the topic {queue.topic}: allow it by an ACL" in await refusal(as_user(queue, "stranger"))
    acls.allow("stranger", ResourceType.TOPIC, queue.topic, AclOperation.READ)
    said = await refusal(as_user(queue, "stranger"))
    assert f"may not WRITE the transactional id baton.{queue.group}/{queue.topic}/0: allow it by a prefixed ACL" in said
    acls.allow("stranger", ResourceType.TRANSACTIONAL_ID, f"baton.{queue.group}/", AclOperation.WRITE, prefixed=True)
    assert await refusal(as_user(queue, "stranger")) == ""


async def test_outputs_without_the_write_right_name_that_right(make: MakeQueue, acls: Acls) -> None:
    queue = make()
    out = f"{queue.topic}-out"
    queue.broker.make_topic(out, 1)
    allow_work(acls, "pod", queue)
    queue.send("1")
    await queue.operator.grant(0, Uid("a"), Epoch(1))
    async with pod(f"kafka://pod:{quote(USERS['pod'])}@127.0.0.1:{queue.broker.sasl_port}/?group={queue.group}") as reader:
        (entry,) = await asyncio.to_thread(read, reader, 0, 1, 1)
        together = [FinishedTogether([entry.offset], [Output(out, b"x")])]
        with pytest.raises(QueueUnreachable, match=f"outputs cannot be sent to the topic {out}: user pod may not WRITE it"):
            await asyncio.to_thread(lambda: reader.ack(0, Epoch(1), [entry.offset], together=together))


async def test_messages_of_a_wrong_password_and_a_missing_broker_differ(queue: Queue) -> None:
    assert "refuses the user operator by SCRAM-SHA-512: correct the user, the password" in await refusal(
        as_user(queue, "operator", password="no")
    )
    nowhere = KafkaAddress(("127.0.0.1:1",))
    assert "Kafka at 127.0.0.1:1 does not answer" in await refusal(operator_at(queue, nowhere))


@pytest.mark.parametrize(
    ("port", "where", "said"),
    [
        ("sasl_port", {}, "closes it"),
        ("port", {"tls": True}, "closes it"),
        ("tls_port", {}, "closes it"),
        ("tls_port", {"user": "operator", "password": "any"}, "closes it"),
        ("port", {"user": "operator", "password": "any"}, "asks for no user at port"),
    ],
)
async def test_a_protocol_other_than_the_ports_is_reported(queue: Queue, port: str, where: dict[str, Any], said: str) -> None:
    address = KafkaAddress((f"127.0.0.1:{getattr(queue.broker, port)}",), **where)
    told = await refusal(operator_at(queue, address))
    assert said in told and "check whether its brokers run" not in told
    if said == "closes it":
        assert f"The protocol used is {address.protocol}: give a user if the port requires SASL, and use TLS" in told


async def test_an_untrusted_certificate_is_reported(queue: Queue) -> None:
    where = KafkaAddress((f"127.0.0.1:{queue.broker.tls_port}",), "operator", USERS["operator"], tls=True)
    assert "shows a certificate that is not trusted" in await refusal(operator_at(queue, where))


async def test_a_missing_topic_is_reported_with_the_cure(queue: Queue) -> None:
    said = await refusal(operator_at(queue, queue.address, "nowhere"))
    assert "there is no topic nowhere" in said and "create it, or correct spec.source.kafka.topic" in said
