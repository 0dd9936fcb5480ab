from pathlib import Path

from baton.spark import class_archive


def test_its_class_path_has_each_jar_once_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b.jar", "a.jar", "note.txt", "baton-spark.jar"):
        (tmp_path / name).touch()
    carried = tmp_path / "elsewhere" / "baton-spark.jar"
    found = class_archive.class_path(tmp_path, carried)
    assert found == [tmp_path / "a.jar", tmp_path / "b.jar", tmp_path / "baton-spark.jar"]
