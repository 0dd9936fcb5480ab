"""How a pydantic model becomes the schema of a custom resource: for `api`, and for the CR models of the kinds of queues."""
