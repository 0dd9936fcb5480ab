"""Topics of Kafka: pods read the partitions that they were granted, and the brokers refuse stale commits."""
