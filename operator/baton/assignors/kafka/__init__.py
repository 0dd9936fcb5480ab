"""Kafka's assignors, as kafka-clients 4.1 has them in `org.apache.kafka.clients.consumer`."""
