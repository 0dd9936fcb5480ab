"""The content of a bundle, and secrets, which never get into it."""

import gc
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from baton.cli.bundle import LOG_BYTES, LOG_LINES, Bundle, groups_of, ledger_part, pod_part, read_bundle
from baton.cli.redaction import HIDDEN, hidden, own_metadata, without_secrets
from baton.kube.api import Api, Json
from baton.kube.errors import NotFoundError, UnavailableError
from baton.kube.objects import groups_path
from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.model.ledger import MemberEntry

LINES = (b"granted 3 to exec-1\n", b"refused: redis://me:hunter", b"2@redis.shop:6379 does not answer\n", b"\xff\n")
PODS = "/api/v1/namespaces/baton-system/pods"


class Cluster(Api):
    """One group, and an operator with two pods; the log of one cannot be read."""

    def __init__(self) -> None:
        super().__init__(None)
        self.asked: list[tuple[str, Mapping[str, str]]] = []

    async def get(self, path: str, **query: str) -> Json:
        metadata = {"namespace": "baton-system", "name": "baton", "labels": {}}
        if path == groups_path("shop", "orders"):
            return {"metadata": {"namespace": "shop", "name": "orders"}, "spec": {"queues": []}}
        if path == "/apis/apps/v1/deployments":
            return {"items": [{"metadata": metadata, "spec": {"template": {"spec": {"containers": []}}}}]}
        if path == PODS:
            return {"items": [{"metadata": {**metadata, "name": name}} for name in ("told", "silent")]}
        if path.startswith("/apis/baton.dev") or path == "/version" or path.endswith(("/pods", "/leases", "/events")):
            return {"items": []}
        raise NotFoundError(404, "NotFound", path)

    async def create(self, path: str, body: Json) -> Json:
        return {}

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str], silence: float) -> AsyncIterator[AsyncIterator[bytes]]:
        self.asked.append((path, query))
        if path == f"{PODS}/silent/log":
            raise UnavailableError("GET log: password=hunter2")
        yield _each(LINES)


async def _each(chunks: tuple[bytes, ...]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def test_logs_are_bounded_and_secrets_across_chunks_hidden() -> None:
    cluster = Cluster()
    files: dict[str, str] = {}
    made = Bundle(files.__setitem__)
    await read_bundle(made, cluster, "shop", await groups_of(cluster, "shop", "orders"), everything=False)
    logs = {path: text for path, text in files.items() if path.endswith(".log")}
    shown = "granted 3 to exec-1\nrefused: redis://***@redis.shop:6379 does not answer\n�\n"
    assert logs == {"operators/baton-system/told.log": shown}
    assert made.unread["log of baton-system/silent"] == "GET log: password=***"
    bounds = {"tailLines": str(LOG_LINES), "limitBytes": str(LOG_BYTES)}
    assert cluster.asked == [(f"{PODS}/{name}/log", bounds) for name in ("told", "silent")]


S = "hunter2-Zq9"
KEYS = (
    *("AKIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    *("ghp_16C7e42F292c6912E7710c838347Ae178B4a", "glpat-ABCDEFGHIJ1234567890", "xoxb-123456789012-abcdefghijkl"),
    *("sk_live_abcdefghijklmnopqrstuvwx", "AIzaSyA1234567890abcdefghijklmnopqrstuv", "hvs.CAESIabcdefghijklmnopqrstuv"),
)


@pytest.mark.parametrize(
    "text",
    [
        f"cannot reach redis://:{S}@redis.shop:6379/0: refused",
        f"rediss+cluster://me:{S}/a?b#c@redis.shop:6379",
        f"kafka://broker:9092?password={S}&group=orders",
        f"https://host/path?access_token={S}",
        f"REDIS_PASSWORD={S} python app.py",
        f'{{"password": "{S}", "user": "me"}}',
        f"{{'client-secret': '{S} with blanks'}}",
        f"--sasl-password {S} --group orders",
        f"password: {S}",
        f"the password is {S}",
        f"Authorization: Bearer {S}abc.def",
        f"authorization={S}",
        f"apiKey={S}, region=eu",
        f"eyJhbGciOiJIUzI1NiJ9.eyJ{S}.signature",
        f"k8s-eyJhbGciOiJIUzI1NiJ9.eyJ{S}.signature",
        f"-----BEGIN PRIVATE KEY-----\n{S}\n-----END PRIVATE KEY-----",
        f"-----BEGIN RSA PRIVATE KEY-----\n{S}\nand cut off",
        f"password=b'{S}'",
        f"password=SecretStr('{S}')",
        f'"password": ["{S}"]',
        f'{{"event": "bad {{\\"password\\": \\"{S}\\"}}"}}',
        f'password: "{S} and cut off',
        f"password='{S} and cut off",
        f"password := {S}",
        f"password => {S}",
        f"password is: {S}",
        f"AUTH me {S}",
        f"ERR unknown command 'AUTH', with args beginning with: '{S}'",
        f"requirepass {S}",
        f"redis-cli -h redis -a {S} ping",
        f"curl -u me:{S} http://host",
        f"ACL SETUSER me on >{S} ~* +@all",
        f"user me on >{S} ~* +@all",
        f"password: |\n  {S}\nuser: me",
        f"('password', '{S}')",
        f"password=some,{S}",
        f"password=it's{S}",
        f"REDIS_PASS={S}",
        f"api key: {S}",
        f"\x1b[36mpassword\x1b[0m=\x1b[35m{S}\x1b[0m",
        f"Authorization: Digest username=me, response={S}",
        f"authorization: ApiKey {S}",
        f"spark.hadoop.fs.s3a.bucket.orders-archive-of-the-shop-in-eu-central-1.production.secret.key={S}",
        f"redis://:it's{S}@redis.shop:6379",
        f"cut off: redis://me:{S}",
        f"https://host/path#access_token={S}",
        f"password ({S})",
        f"password[{S}]",
        f"password | {S}",
        f"password — {S}",
        f"password 'one two {S}' refused",
        f"password `one two {S}`",
        f"AccountKey={S};EndpointSuffix=x",
        f"sig={S}&se=2026",
        f"connect to me:{S}@redis.shop:6379",
        f"//me:{S}@redis.shop",
        f":{S}@redis.shop:6379",
        f"redis:/me:{S}@redis",
        f"redis:\\/\\/me:{S}@redis",
        f"redis%3A%2F%2Fme%3A{S}%40redis",
        f"redis://me:with blanks {S}@redis",
        f'redis://me:a"{S}@redis',
        f"redis://me:{S}%40redis",
        f"X-Api-Key: {S}",
        f"eyJhbGciOiJkaXIifQ..iv.{S}.tag",
        f"---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n{S}\n---- END SSH2 ENCRYPTED PRIVATE KEY ----",
        f"-----BEGIN OPENSSH PRIVATE KEY-----\\n{S}\\n-----END OPENSSH PRIVATE KEY-----",
    ],
)
def test_a_secret_is_hidden(text: str) -> None:
    found = hidden(text)
    assert S not in found and HIDDEN in found
    assert hidden(found) == found, "nothing changes the second time"


@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_recognized_by_its_form(key: str) -> None:
    assert hidden(f"refused ({key}): no") == f"refused ({HIDDEN}): no"
    assert hidden(f"key:{key} was refused") == f"key:{HIDDEN} was refused"


@pytest.mark.parametrize(
    "text",
    [
        'secrets "orders-redis-2" is forbidden: User "system:serviceaccount:shop:baton" cannot get resource "secrets"',
        "the operator cannot read Secret shop/orders-redis (spec.source.redis.urlSecretRef of queue orders), or it does not "
        "exist: set the chart's value rbac.secrets.shop to [orders-redis], or give the operator's account the verb get on it",
        "spec.source.redis.url of queue orders holds a user or a password: put the URL into a Secret and name it in "
        "spec.source.redis.urlSecretRef",
        "orders is not Ready: its Secret is missing, the token was expired (sentinel_auth=true)",
        "wrong password for 10.244.77.1:6379, 3 times since 2026-11-26T12:00:00Z; redis://redis-0.shop:6379/0, partition=3",
        "kubectl auth can-i list leases.coordination.k8s.io -n shop",
        "it takes the token of the queue away, and reads no secret here",
        "0a1b2c3d-0a1b-2c3d-4e5f-0a1b2c3d4e5f sha256:0123456789abcdef0123456789abcdef01234567",
        "partition 3 of orders goes from exec-1 to exec-2: exec-2 joined",
        "redis.shop:6379 does not answer: start it, or correct spec.source.redis.url",
        "redis://redis.shop:6379/0",
        "kafka://one.shop:9092,two.shop:9092, redis://redis.shop:6379: refused, http://[::1]:80/",
        "3 of 4 passed; batch 7 passes",
        "2026-11-26T12:00:00Z level=info event=granted epoch=12",
        "baton.dev/release: baton-system/baton-operator",
    ],
)
def test_text_without_secrets_is_unchanged(text: str) -> None:
    assert hidden(text) == text


def test_fields_named_like_secrets_are_hidden() -> None:
    value = {"password": S, "urlSecretRef": {"name": "orders-redis", "key": "url"}, "of": [{"apiToken": S}], "partitions": 6}
    value |= {"tokens": [S, 17, None], "secret": {"of": S, "given": True}}
    kept = {**value, "password": HIDDEN, "of": [{"apiToken": HIDDEN}]}
    assert without_secrets(value) == {**kept, "tokens": [HIDDEN, HIDDEN, None], "secret": {"of": HIDDEN, "given": True}}


def test_objects_named_like_secrets_are_shown() -> None:
    entry = MemberEntry("shop/orders", MemberId("token-refresh-7f9c4"), Uid("u"), 3, True, {QueueName("orders"): {0: Epoch(12)}})
    found = ledger_part({"metadata": {"name": "orders-assignments"}, "data": {entry.member: entry.to_json()}})
    assert found["data"] == {entry.member: entry.to_json()}
    (container,) = [{"name": "compass-pass", "image": "shop/orders:1", "env": [{"name": "PASSWORD", "value": S}]}]
    assert pod_part({"metadata": {"name": "a"}, "spec": {"containers": [container]}})["images"] == {
        "compass-pass": "shop/orders:1"
    }


def test_foreign_labels_and_annotations_are_left_out() -> None:
    metadata = {
        "name": "orders",
        "labels": {"baton.dev/group": "orders", "team": S},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": S, "baton.dev/drain": "true"},
        "managedFields": [S],
    }
    kept = {"name": "orders", "labels": {"baton.dev/group": "orders"}, "annotations": {"baton.dev/drain": "true"}}
    assert own_metadata(metadata) == kept


FRAGMENTS = (
    *("exec-", "a.b-c", "token", "token-", "a://:", "a://", "a://b", "a://?", "password='", 'secret=\\"', "password is "),
    *(
        "-token ",
        "eyJ-",
        "eyJabcde",
        "eyJabcde.",
        "eyJabcde.abcde",
        "authorization=",
        "authorization: '",
        "bearer ",
        "basic=",
        "\x1b[3",
    ),
    *("-----BEGIN ", "-----BEGIN -----", "-----", "password=***", "password=b'", "password: |\n", "('password', '", "%3D", "\\"),
    *("password ", "password a1b2 ", "a:", "a:b@", ",a:b", "a%3A%2F%2F", "Aa1/", "AKIA", "a://:b ", "[a://", "---- BEGIN "),
)
"""Beginnings of matches of the rules."""


@pytest.mark.parametrize("text", FRAGMENTS)
def test_redaction_takes_linear_time(text: str) -> None:
    """A text that is sixteen times as long takes about sixteen times as long; quadratic time would take 256 times. Other load on
    the machine only adds to a measurement, so the least of several counts, and garbage collection is off."""

    def seconds(length: int) -> float:
        began = time.process_time()
        hidden(text * (length // len(text)))
        return time.process_time() - began

    def least(length: int) -> float:
        return min(seconds(length) for _ in range(3))

    gc.disable()
    try:
        assert least(64_000) < 100 * least(4_000)
    finally:
        gc.enable()
