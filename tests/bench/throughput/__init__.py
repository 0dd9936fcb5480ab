"""`make bench-throughput`: consume and commit on Kafka, beside confluent-kafka with its auto-commit."""
