"""Topics of Kafka: declared, and not spoken to yet."""
