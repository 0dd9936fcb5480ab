"""What the example has written: Spark's file sink, read as Spark does, by the sink's own record of what belongs to it."""

import json
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow.parquet as pq


def written(output: Path, mounted_at: str) -> Counter[tuple[int, int]]:
    """How often each entry (partition, offset) was written. `mounted_at`: where the pods see the folder."""
    rows: Counter[tuple[int, int]] = Counter()
    for name in committed(output / "_spark_metadata"):
        inside = Path(urlsplit(name).path).relative_to(mounted_at)
        table = pq.read_table(output / inside, columns=["partition", "offset"])
        rows.update(zip(table.column("partition").to_pylist(), table.column("offset").to_pylist(), strict=True))
    return rows


def committed(log: Path) -> set[str]:
    """The files that the batches in the log have committed."""
    names: set[str] = set()
    for batch in log.glob("[0-9]*") if log.is_dir() else ():
        lines = batch.read_text().splitlines()[1:]  # the first is the version
        names.update(json.loads(line)["path"] for line in lines)
    return names
