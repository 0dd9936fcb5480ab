"""Sizes of a fleet at which every pod has equally many partitions (spec.scale.steps)."""


def even_size(replicas: int, partitions: int) -> int:
    """The largest size, `replicas` at most, that divides the partitions evenly: 64 go to 1, 2, 4, 8, 16, 32 or 64 pods. Where
    there are no partitions it is `replicas`."""
    most = min(replicas, partitions)
    return next((size for size in range(most, 0, -1) if partitions % size == 0), replicas)
