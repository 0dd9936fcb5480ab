"""What looks like a secret is hidden, whatever is around it; and what is none stays."""

import time

import pytest

from baton.cli.bundle_parts import ledger, pod
from baton.cli.redaction import HIDDEN, hidden, own_metadata, without_secrets
from baton.model.ids import Epoch, MemberId, QueueName, Uid
from baton.model.ledger import MemberEntry

S = "hunter2-Zq9"


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
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str) -> None:
    found = hidden(text)
    assert S not in found and HIDDEN in found
    assert hidden(found) == found, "nothing changes the second time"


@pytest.mark.parametrize(
    "text",
    [
        "partition 3 of orders goes from exec-1 to exec-2: exec-2 joined",
        "redis.shop:6379 does not answer: start it, or correct spec.source.redis.url",
        "redis://redis.shop:6379/0",
        "kafka://one.shop:9092,two.shop:9092, redis://redis.shop:6379: refused, http://[::1]:80/",
        "3 of 4 passed; batch 7 passes",
        "2026-11-26T12:00:00Z level=info event=granted epoch=12",
        "baton.dev/release: baton-system/baton-operator",
    ],
)
def test_what_is_none_stays(text: str) -> None:
    assert hidden(text) == text


def test_a_field_with_the_name_of_a_secret_is_hidden_and_one_that_names_a_secret_is_not() -> None:
    value = {"password": S, "urlSecretRef": {"name": "orders-redis", "key": "url"}, "of": [{"apiToken": S}], "partitions": 6}
    value |= {"tokens": [S, 17, None], "secret": {"of": S, "given": True}}
    kept = {**value, "password": HIDDEN, "of": [{"apiToken": HIDDEN}]}
    assert without_secrets(value) == {**kept, "tokens": [HIDDEN, HIDDEN, None], "secret": {"of": HIDDEN, "given": True}}


def test_what_is_called_like_a_secret_by_its_object_is_shown() -> None:
    entry = MemberEntry("shop/orders", MemberId("token-refresh-7f9c4"), Uid("u"), 3, True, {QueueName("orders"): {0: Epoch(12)}})
    found = ledger({"metadata": {"name": "orders-assignments"}, "data": {entry.member: entry.to_json()}})
    assert found["data"] == {entry.member: entry.to_json()}
    (container,) = [{"name": "compass-pass", "image": "shop/orders:1", "env": [{"name": "PASSWORD", "value": S}]}]
    assert pod({"metadata": {"name": "a"}, "spec": {"containers": [container]}})["images"] == {"compass-pass": "shop/orders:1"}


def test_labels_and_annotations_of_others_are_left_out() -> None:
    metadata = {
        "name": "orders",
        "labels": {"baton.dev/group": "orders", "team": S},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": S, "baton.dev/drain": "true"},
        "managedFields": [S],
    }
    kept = {"name": "orders", "labels": {"baton.dev/group": "orders"}, "annotations": {"baton.dev/drain": "true"}}
    assert own_metadata(metadata) == kept


FRAGMENTS = (
    *(
        "exec-",
        "a.b-c",
        "token",
        "token-",
        "a://:",
        "a://",
        "a://b",
        "a://?",
        "password='",
        'secret=\\"',
        "password is ",
        "-token ",
    ),
    *("eyJ-", "eyJabcde", "eyJabcde.", "eyJabcde.abcde", "authorization=", "authorization: '", "bearer ", "basic=", "\x1b[3"),
    *("-----BEGIN ", "-----BEGIN -----", "-----", "password=***", "password=b'", "password: |\n", "('password', '", "%3D", "\\"),
)
"""The beginnings of what the rules look for."""


@pytest.mark.parametrize("text", FRAGMENTS)
def test_a_long_log_takes_no_time_that_grows_with_its_square(text: str) -> None:
    def seconds(length: int) -> float:
        began = time.process_time()
        hidden(text * (length // len(text)))
        return time.process_time() - began

    assert seconds(60_000) < 60 * max(seconds(6_000), 0.001)
