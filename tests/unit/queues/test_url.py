"""Redis URLs: what they may contain, errors for anything else, and passwords that are never printed."""

from re import fullmatch

import pytest

from baton.cli.options import REDIS_URL
from baton.queues.protocol import Claimant, QueueUnreachable
from baton.queues.redis import RedisDeadLetters, RedisQueue
from baton.queues.redis.url import EXAMPLES, FORMS, MOST_SHOWN, SCHEMES, read

PASSWORD = "correct-horse/battery"
IN_URL = "correct-horse%2Fbattery"


@pytest.mark.parametrize(
    ("url", "place", "options"),
    [
        ("redis://redis", "Redis at redis:6379", {"host": "redis", "port": 6379}),
        ("redis://redis.shop:7000/3", "Redis at redis.shop:7000", {"host": "redis.shop", "port": 7000, "db": 3}),
        ("redis://redis/?db=3", "Redis at redis:6379", {"host": "redis", "port": 6379, "db": 3}),
        ("redis://[::1]:7000", "Redis at ::1:7000", {"host": "::1", "port": 7000}),
        ("unix:///run/redis.sock?db=1", "Redis at /run/redis.sock", {"path": "/run/redis.sock", "db": 1}),
        (
            "rediss://r?ssl_ca_certs=/etc/ca.pem&ssl_check_hostname=false&socket_timeout=1.5",
            "Redis at r:6379",
            {"host": "r", "port": 6379, "ssl_ca_certs": "/etc/ca.pem", "ssl_check_hostname": False, "socket_timeout": 1.5},
        ),
    ],
)
def test_a_url_has_an_address_and_options(url: str, place: str, options: dict[str, object]) -> None:
    found = read(url)
    assert (found.place, found.options, found.user, found.password) == (place, options, None, None)


@pytest.mark.parametrize(
    ("url", "hosts", "service", "password", "options"),
    [
        ("redis+sentinel://s/orders", (("s", 26379),), "orders", False, {}),
        (
            "redis+sentinel://:pw@s1.shop:5000,s2.shop,[::1]:5001/my-primary.1/3?sentinel_auth=true&socket_timeout=1",
            (("s1.shop", 5000), ("s2.shop", 26379), ("::1", 5001)),
            "my-primary.1",
            True,
            {"db": 3, "socket_timeout": 1.0},
        ),
        ("rediss+sentinel://s/7/0?ssl_check_hostname=false", (("s", 26379),), "7", False, {"db": 0, "ssl_check_hostname": False}),
    ],
)
def test_a_url_names_sentinels(url: str, hosts: object, service: str, password: bool, options: dict[str, object]) -> None:
    found = read(url)
    assert found.sentinels is not None
    assert (found.sentinels.hosts, found.sentinels.service, found.sentinels.password) == (hosts, service, password)
    assert found.options == options
    assert found.scheme == url.partition("+")[0]
    assert found.place.startswith(f"Redis {service} of the Sentinels at s")


@pytest.mark.parametrize(
    ("url", "hosts", "options"),
    [
        ("redis+cluster://r", (("r", 6379),), {}),
        ("redis+cluster://u:pw@r1.shop:7000,r2,[::1]:7001/0", (("r1.shop", 7000), ("r2", 6379), ("::1", 7001)), {}),
        ("rediss+cluster://r/?db=0&ssl_check_hostname=false", (("r", 6379),), {"ssl_check_hostname": False}),
    ],
)
def test_a_url_names_nodes_of_a_cluster(url: str, hosts: object, options: dict[str, object]) -> None:
    found = read(url)
    assert found.cluster is not None and found.sentinels is None
    assert (found.cluster.hosts, found.options, found.scheme) == (hosts, options, url.partition("+")[0])
    assert found.place.startswith("Redis Cluster at r")


def test_every_url_form_is_accepted_everywhere() -> None:
    """The API server's rule is made of the same forms."""
    rest = {"": "r:1/0", "+sentinel": "s1:1,s2/orders/0", "+cluster": "r1:1,r2"}
    assert FORMS.keys() == EXAMPLES.keys() == rest.keys()
    for scheme in SCHEMES:
        tls, plus, kind = scheme.partition("+")
        url = f"{scheme}://{rest[plus + kind]}"
        assert read(url).scheme == tls
        assert REDIS_URL.convert(url, None, None) == url
        assert fullmatch(FORMS[plus + kind], rest[plus + kind])


def test_user_and_password_are_decoded_and_printed_nowhere() -> None:
    found = read(f"redis://shop%40eu:{IN_URL}@redis")
    assert (found.user, found.password) == ("shop@eu", PASSWORD)
    for text in (repr(found), str(found), f"{found}"):
        assert PASSWORD not in text and IN_URL not in text and "battery" not in text


def test_credential_files_are_for_a_programs_own_url_only() -> None:
    """Otherwise the author of a URL could have another program's files sent to a server."""
    url = "redis://redis/0?username_file=/secret/user&password_file=/secret/pass"
    found = read(url, own=True)
    assert found.files == {"username_file": "/secret/user", "password_file": "/secret/pass"}
    assert found.options == {"host": "redis", "port": 6379, "db": 0}
    with pytest.raises(QueueUnreachable, match="option username_file, which is for consumers and producers: write user and"):
        read(url)
    with pytest.raises(QueueUnreachable, match="option username_file, which is for consumers and producers: write user and"):
        RedisQueue(url, "shop/orders", Claimant("shop/orders", "uid"))
    with pytest.raises(QueueUnreachable, match="option username_file, which is for consumers and producers: write user and"):
        RedisDeadLetters(url, "shop/orders")
    with pytest.raises(QueueUnreachable, match=r"option password_file.*give user and password once"):
        read(f"redis://:{IN_URL}@redis/0?password_file=/secret/pass", own=True)


def test_a_password_from_a_file_is_not_printed_either() -> None:
    found = read("redis://redis/0?password_file=/secret/pass", own=True)
    assert found.hidden(f"no such password: {PASSWORD}").endswith(PASSWORD)
    found.conceal(PASSWORD)
    assert "its text is left out" in found.hidden(f"no such password: {PASSWORD}")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "is not a Redis URL"),
        ("redis.shop:6379", "is not a Redis URL"),
        ("http://redis:6379", "is not a Redis URL"),
        ("redis://redis:port/0", "is not a Redis URL"),
        ("redis://re\x1bdis", "is not a Redis URL"),
        ("redis://redis..shop", "is not a Redis URL"),
        (f"redis://{'r' * 64}.shop", "is not a Redis URL"),
        ("redis://redis/orders", "does not end with the number of a database"),
        ("redis+sentinel://s1,s2", "Write it as redis+sentinel://"),
        ("redis+sentinel://s1,s2/", "Write it as redis+sentinel://"),
        ("redis+sentinel://s1,,s2/orders", "Write it as redis+sentinel://"),
        ("redis+sentinel://s1:x/orders", "Write it as redis+sentinel://"),
        (f"redis+sentinel://{','.join('s' * 17)}/orders", "Write it as redis+sentinel://"),
        ("redis+sentinel://s1/my%20orders", "Write it as redis+sentinel://"),
        ("redis+cluster://s1,,s2", "Write it as redis+cluster://"),
        (f"redis+cluster://{','.join('s' * 17)}", "Write it as redis+cluster://"),
        ("redis+cluster://s1/3", "names another database than 0, and a Redis Cluster has no other"),
        ("redis+cluster://s1?db=3", "names another database than 0, and a Redis Cluster has no other"),
        ("redis+cluster://s1/orders", "does not end with the number of a database"),
        ("redis+cluster://s1?sentinel_auth=true", "option sentinel_auth, which is for Sentinels"),
        (f"redis+cluster://:{PASSWORD}@s1", "in the password as %2F"),
        ("redis+proxy://s1/orders", "is not a Redis URL"),
        ("redis+sentinel://s1/orders/x", "does not end with the number of a database"),
        (f"redis+sentinel://:{PASSWORD}@s1/orders", "in the password as %2F"),
        ("redis+sentinel://s1/orders?ssl_cert_reqs=none", "which is for TLS: begin it with rediss"),
        ("redis+sentinel://s1/orders?sentinel_auth=1", "option sentinel_auth: write true or false"),
        ("redis://s1/0?sentinel_auth=true", "option sentinel_auth, which is for Sentinels"),
        ("redis://redis/?db=x", "option db: write a number such as 0"),
        ("redis://redis/?db=-1", "option db: write a number"),
        ("redis://redis/?socket_timeout=soon", "option socket_timeout: write seconds such as 2.5"),
        ("redis://redis/?socket_timeout=0", "option socket_timeout: write seconds"),
        ("rediss://redis/?ssl_cert_reqs=maybe", "option ssl_cert_reqs: write required, optional or none"),
        ("redis://redis/?ssl_cert_reqs=none", "option ssl_cert_reqs, which is for TLS: begin it with rediss://"),
        ("redis://redis/?decode_responses=true", "unknown option decode_responses: use db, client_name"),
        ("redis://redis/?protocol=3", "unknown option protocol: use"),
        ("redis://redis/?%1b[2J=3", "has the unknown option: use"),
        (f"redis://redis/?password={IN_URL}", "option password: put user and password before the host"),
        (f"redis://redis/?p%61ssword={IN_URL}", "option password: put user and password before the host"),
        (f"redis://redis/?username=shop&password={IN_URL}", "option username: put user and password before the host"),
        (f"rediss://redis/?ssl_password={IN_URL}", "option ssl_password"),
        (f"redis://:{PASSWORD}@redis", "Write / ? # @ : in the password as %2F"),
        ("redis://:correct-horse?battery@redis", "in the password as %2F %3F"),
        ("redis://:correct-horse#battery@redis", "in the password as %2F %3F"),
        ("redis+sentinel://:correct@s1/orders#battery@s2", "Write it as redis+sentinel://[user:password@]"),
        ("rediss+cluster://:correct@s1?horse@s2", "Write it as redis+cluster://[user:password@]"),
        ("redis+cluster://s1/0#battery", "in the password as %2F %3F"),
    ],
)
def test_an_invalid_url_is_refused_without_printing_its_password(url: str, said: str) -> None:
    with pytest.raises(QueueUnreachable) as refusal:
        read(url)
    message = str(refusal.value)
    assert said in message
    assert "\x1b" not in message
    assert not any(part in message for part in (PASSWORD, IN_URL, "horse", "battery"))


@pytest.mark.parametrize(
    "echo",
    [
        f"ERR unknown command 'AUTH', with args beginning with: '{PASSWORD}'",
        f"ERR unknown command 'AUTH', with args beginning with: '{PASSWORD[:9]}",
        f"-ERR redis://:{IN_URL}@redis",
        "ERR Y29ycmVjdC1ob3JzZS9iYXR0ZXJ5",
    ],
)
def test_server_messages_with_part_of_the_password_are_left_out(echo: str) -> None:
    assert read(f"redis://:{IN_URL}@redis").hidden(echo) == "its text is left out because it contains a part of the password"


def test_other_server_messages_are_shortened_to_one_line() -> None:
    url = read("redis://:pw@redis")
    assert url.hidden("ERR no\r\n\x1b[2J such thing") == "ERR no [2J such thing"
    assert len(url.hidden("x" * 5000)) == MOST_SHOWN
    assert url.hidden("ERR pw") != "ERR pw", "a short one is one part"
