"""Puts the jar of Spark's source `baton` into the wheel and the sdist.

It is built where a JDK and Spark's jars are (pyspark beside the build, or SPARK_HOME). Elsewhere it is left out with a warning:
a consumer that is no Spark fleet does not need it, and a fleet builds it when it begins. A release (`make dist`, which sets
BATON_RELEASE) fails instead.
"""

import os
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODULE = "baton/spark/jar_file.py"
CARRIED = "baton/spark/jars/baton-spark.jar"


class JarHook(BuildHookInterface):  # type: ignore[type-arg]
    """See the module."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """An editable installation uses the checkout's sources; an sdist has the jar already."""
        if version == "editable" or (Path(self.root) / CARRIED).exists():
            return
        spec = spec_from_file_location("jar_file", Path(self.root) / MODULE)
        assert spec is not None and spec.loader is not None
        jar_file = module_from_spec(spec)
        spec.loader.exec_module(jar_file)
        try:
            build_data["force_include"][str(jar_file.path())] = CARRIED
        except jar_file.JarError as error:
            if os.environ.get("BATON_RELEASE"):
                self.app.abort(f"a release of baton-consumer carries the jar of Spark's source. {error}")
            self.app.display_warning(f"baton-consumer is built without the jar of Spark's source: {error}")
