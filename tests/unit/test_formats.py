"""Names that users write down: metrics with their labels, variables of the environment, labels and annotations."""

import re
from contextlib import closing
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from baton.spark.metrics import MetricsServer
from tests.formats import same
from tests.unit.controller.test_reference_pages import consumer_families, families
from tests.unit.spark.test_statistics import Counted, scraped

BATON = Path(__file__).parents[2] / "operator" / "baton"


def test_metrics_and_their_labels() -> None:
    with closing(MetricsServer(0, "orders", Counted())) as server:
        page = [*text_string_to_metric_families("\n".join(scraped(server.port)))]
    driver = {sample.name: {*sample.labels} for family in page for sample in family.samples}
    by_page = {"operator": families(), "consumer": consumer_families(), "driver of a Spark fleet": driver}
    shown = {page: {name: ", ".join(sorted(found[name])) for name in sorted(found)} for page, found in by_page.items()}
    same("metrics.json", shown)


def test_variables_labels_and_annotations() -> None:
    code = "".join(file.read_text(encoding="utf-8") for suffix in ("py", "java") for file in sorted(BATON.rglob(f"*.{suffix}")))
    found = {what: sorted({*re.findall(pattern, code)}) for what, pattern in PATTERNS.items()}
    same("names.json", found)


PATTERNS = {"variables": r"\bBATON_[A-Z_]+\b", "labels, annotations and finalizers": r"\bbaton\.dev/[a-z-]+\b"}
