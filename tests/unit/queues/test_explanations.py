"""What a consumer or producer is told leads to the cause, also where only the operator knows it."""

from baton.queues.redis.connection import absent
from baton.queues.redis.url import read


def test_of_a_queue_that_is_not_there_the_group_s_conditions_say_why() -> None:
    told = absent(read("redis://redis.shop"), "queue", "shop/orders")
    assert told.startswith("Redis at redis.shop:6379, database 0, has no queue shop/orders.")
    assert told.endswith("The conditions of that group say what it waits for: kubectl describe consumergroups -n shop.")
