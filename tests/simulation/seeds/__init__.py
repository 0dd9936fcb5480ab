"""Random fleets in virtual time, each from one seed: consumers, queues and the API server are models, and the
engine runs between them as the operator runs it. See docs/development/simulation.md."""
