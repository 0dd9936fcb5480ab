from pathlib import Path

from baton.spark import class_archive

EXAMPLE = Path(__file__).parents[3] / "manifests" / "examples" / "spark"


def test_its_class_path_has_each_jar_once_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b.jar", "a.jar", "note.txt", "baton-spark.jar"):
        (tmp_path / name).touch()
    carried = tmp_path / "elsewhere" / "baton-spark.jar"
    found = class_archive.class_path(tmp_path, carried)
    assert found == [tmp_path / "a.jar", tmp_path / "b.jar", tmp_path / "baton-spark.jar"]


def test_drivers_and_executors_have_one_archive_and_one_class_path(tmp_path: Path) -> None:
    (tmp_path / class_archive.CLASS_PATH).write_text("/jars/a.jar:/jars/b.jar")
    assert class_archive.settings(tmp_path) == {
        "spark.driver.extraClassPath": "/jars/a.jar:/jars/b.jar",
        "spark.driver.defaultJavaOptions": f"-XX:SharedArchiveFile={tmp_path}/classes.jsa",
    }
    entrypoint = (EXAMPLE / "entrypoint.sh").read_text()
    assert "-XX:SharedArchiveFile=/opt/classes/classes.jsa" in entrypoint
    assert "$(</opt/classes/class-path):$class_path" in entrypoint
