"""The Spark that this is made for: it calls classes that Spark keeps for itself, and its jar is compiled against Spark's own."""

import pyspark

SPARK = "4.3."


def check(version: str = pyspark.__version__) -> None:
    """Raises RuntimeError for a Spark of another version, before one of its classes is missed."""
    if not version.startswith(SPARK):
        raise RuntimeError(
            f"This version of Baton is for Spark {SPARK}x, and this is Spark {version}: install pyspark {SPARK}x, or another "
            "version of baton-consumer"
        )
