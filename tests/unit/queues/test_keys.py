"""Keys of one queue are on one node of a Redis Cluster, and so are the announcements to a group's pods."""

from redis.crc import key_slot

from baton.queues.redis.keys import announcements_key, partition_keys, queue_key


def test_all_keys_of_a_queue_are_in_one_slot() -> None:
    for queue in ("shop/orders", "shop/a.b-c", "shop/}{", "shop/{x}", "shop/{", "shop/}"):
        keys = {queue_key(queue), *partition_keys(queue, 0), *partition_keys(queue, 1023)}
        keys |= {key.replace("stream:", "stage:2.") for key in keys}
        assert len({key_slot(key.encode()) for key in keys}) == 1, queue


def test_queues_and_groups_spread_over_slots() -> None:
    assert len({key_slot(queue_key(f"shop/orders-{number}").encode()) for number in range(100)}) > 95
    pods = {announcements_key("shop/orders", f"uid-{number}") for number in range(100)}
    assert len({key_slot(key.encode()) for key in pods}) == 1
