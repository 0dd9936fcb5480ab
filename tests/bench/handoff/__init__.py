"""`make bench-handoff`: what a change of the fleet costs, on Baton and on Kafka's own consumer groups."""
