"""The archive of Java's classes that the example's image is built with: made once of the same jars, into the cache."""

from hashlib import sha256
from pathlib import Path

from baton.spark import class_archive, jar_file
from cluster.programs import cache


def archived_classes() -> Path:
    """Its folder."""
    spark = jar_file.spark_jars()
    assert spark is not None
    digest = sha256()
    for jar in class_archive.class_path(spark, jar_file.path()):
        there = jar.stat()
        digest.update(f"{jar} {there.st_size} {there.st_mtime_ns}\n".encode())
    folder = cache() / f"classes-{digest.hexdigest()[:16]}"
    if not (folder / class_archive.DEFAULTS).exists():
        class_archive.make(folder)
    return folder
