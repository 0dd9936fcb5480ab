"""Load on a fleet of consumers, and those who watch what becomes of it: the sink, the queue's owner records, the ledger."""
