"""What Spark's file sink has written, read as Spark does: by the sink's own record of what belongs to it."""

import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pyarrow.parquet as pq

COMPACTED = ".compact"


class Place(NamedTuple):
    """Of an entry in its queue."""

    partition: int
    offset: int


def written(output: Path, mounted_at: Path | None = None) -> Counter[Place]:
    """How often each entry was written. `mounted_at`: where those who wrote see the folder, if it is elsewhere."""
    rows: Counter[Place] = Counter()
    for names in committed(output / "_spark_metadata").values():
        for name in names:
            rows.update(places(output / Path(name).relative_to(mounted_at or output)))
    return rows


def committed(log: Path) -> dict[int, list[str]]:
    """The files that each batch has committed, by its number."""
    batches: dict[int, list[str]] = {}
    seen: set[str] = set()
    for number, record in sorted(_records(log)):
        lines = record.read_text().splitlines()[1:]  # the first is the version
        names = [urlsplit(json.loads(line)["path"]).path for line in lines]
        batches.setdefault(number, []).extend(name for name in names if name not in seen)  # a compacted one has all before it
        seen.update(names)
    return batches


@cache
def places(file: Path) -> tuple[Place, ...]:
    """The entries of a file, as they stand there. A file that was committed is not written again."""
    table = pq.read_table(file, columns=["partition", "offset"])
    return tuple(map(Place, table.column("partition").to_pylist(), table.column("offset").to_pylist()))


def out_of_order(output: Path) -> list[str]:
    """Entries that stand behind later ones of their partition, in a file or in the batches before: a sentence each."""
    found: list[str] = []
    last: dict[int, int] = {}
    for number, names in sorted(committed(output / "_spark_metadata").items()):
        behind = dict(last)
        for name in names:
            here: dict[int, int] = {}
            for partition, offset in places(Path(name)):
                if offset <= max(here.get(partition, -1), behind.get(partition, -1)):
                    found.append(f"batch {number}: {offset} of partition {partition} comes late")
                here[partition] = offset
                last[partition] = max(last.get(partition, -1), offset)
    return found


def _records(log: Path) -> Iterator[tuple[int, Path]]:
    for record in log.glob("[0-9]*") if log.is_dir() else ():
        number = record.name.removesuffix(COMPACTED)
        if number.isdecimal():
            yield int(number), record
