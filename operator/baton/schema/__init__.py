"""Turn pydantic models into schemas of custom resources: the models of `api`, and those of each kind of queue."""
