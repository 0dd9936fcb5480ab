"""Does anything notice when a rule is broken? `make mutate`."""
