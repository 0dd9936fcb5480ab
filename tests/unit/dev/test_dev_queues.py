"""What `baton dev` says of a queue that another process holds."""

import pytest

from baton.dev.queues import on_redis


@pytest.mark.parametrize(
    ("url", "command"),
    [
        ("redis://127.0.0.1:6379/2", "redis-cli -u redis://127.0.0.1:6379/2"),
        ("rediss://redis.shop", "redis-cli -u rediss://redis.shop:6379/0"),
        ("redis://:geheim@redis.shop:6379/0", 'redis-cli -u "$BATON_REDIS_URL"'),
        ("unix:///tmp/redis.sock?db=1", "redis-cli -s /tmp/redis.sock -n 1"),
    ],
)
def test_the_cure_names_the_server_and_no_password(url: str, command: str) -> None:
    cure = on_redis(url, "orders", 6, 0).taken
    assert f"{command} HDEL 'pq:{{dev/orders}}:queue' group uid" in cure
    assert "geheim" not in cure
