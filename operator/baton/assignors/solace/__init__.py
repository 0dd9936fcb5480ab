"""The rebalancing of Solace's partitioned queues, and the search for a balance with the fewest moves."""
