"""A real Prometheus for tests: on a free port, in a temporary directory."""

import json
import math
import shutil
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from charts.render import CHART
from cluster.ports import free_ports
from tests.processes import ChildProcess
from tests.waiting import PATIENCE, until


def alerts_at_once(folder: Path) -> Path:
    """A file with the chart's alerts, which do not wait."""
    rules = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())
    for rule in rules["groups"][0]["rules"]:
        rule.pop("for", None)
    made = folder / "alerts.yaml"
    made.write_text(yaml.safe_dump(rules, width=1000))
    return made


class PrometheusServer:
    """`with PrometheusServer(rules, honor_labels=True) as prometheus:`; it looks at its targets every second."""

    def __init__(self, *rules: Path, honor_labels: bool, address: str = "127.0.0.1") -> None:
        """`address`: of this machine, where it answers."""
        self._folder = Path(tempfile.mkdtemp(prefix="baton-prometheus-"))
        self._targets = self._folder / "targets.json"
        self.scrape(())
        job = {"job_name": "baton", "honor_labels": honor_labels, "file_sd_configs": [{"files": [str(self._targets)]}]}
        every = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config = self._folder / "prometheus.yml"
        config.write_text(yaml.safe_dump({"global": every, "rule_files": [*map(str, rules)], "scrape_configs": [job]}))
        place = f"{address}:{next(free_ports(address))}"
        self.url = f"http://{place}"
        self._log = (self._folder / "log").open("w")
        command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={self._folder / 'data'}"]
        self._process = ChildProcess([*command, f"--web.listen-address={place}"], stdout=self._log, stderr=self._log)

    def scrape(self, places: Sequence[str]) -> None:
        """These (`address:port`) from now on."""
        found = self._targets.with_suffix(".new")
        found.write_text(json.dumps([{"targets": places}]))
        found.replace(self._targets)  # Prometheus follows the file

    def values(self, question: str) -> list[float]:
        """What PromQL answers now, without what is no number. Raises AssertionError where it is not understood."""
        samples = self._ask("query", query=question)["result"]
        numbers = [float(sample["value"][1]) for sample in samples]
        return [number for number in numbers if not math.isnan(number)]

    def firing(self) -> set[str]:
        """The names of the alerts."""
        return {alert["labels"]["alertname"] for alert in self._ask("alerts")["alerts"] if alert["state"] == "firing"}

    def _ask(self, what: str, **words: str) -> Any:
        address = f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(words)}"
        try:
            with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as refusal:
            raise AssertionError(f"{words}: {refusal.read().decode()}") from None

    def _ready(self) -> bool:
        assert self._process.poll() is None, (self._folder / "log").read_text()[-2000:]
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=PATIENCE) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def __enter__(self) -> Self:
        until(self._ready, "Prometheus is ready")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()
        shutil.rmtree(self._folder)
