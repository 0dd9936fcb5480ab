"""RocketMQ's assignors, as rocketmq-client 5.3 has them in `org.apache.rocketmq.client.consumer.rebalance`."""
