"""Links of a network that can be broken: one from each process of a fleet to each server that it speaks to."""

from pathlib import Path
from urllib.parse import urlsplit

import yaml

from tests.network import Link, Network
from tests.redis_server import RedisServer

Ends = tuple[str, str]
"""Who, and to which server: `redis` or `api`."""


class Links:
    """Made as they are asked for."""

    def __init__(self, network: Network, kubeconfig: Path, server: RedisServer, folder: Path) -> None:
        """`folder`: for the kubeconfigs of those who go by a link."""
        self._network = network
        self._kubeconfig = kubeconfig
        self._server = server
        self._folder = folder
        self.made: dict[Ends, Link] = {}

    def redis(self, who: str) -> str:
        """The URL by which this process reaches Redis."""
        return f"redis://127.0.0.1:{self._link(who, 'redis', self._server.bind, self._server.port).port}/0"

    def api_server(self, who: str) -> Path:
        """The kubeconfig by which it reaches the API server."""
        content = yaml.safe_load(self._kubeconfig.read_text())
        cluster = content["clusters"][0]["cluster"]
        server = urlsplit(cluster["server"])
        assert server.hostname and server.port
        cluster["server"] = f"https://127.0.0.1:{self._link(who, 'api', server.hostname, server.port).port}"
        file = self._folder / f"{who}.kubeconfig"
        file.write_text(yaml.safe_dump(content))
        return file

    def _link(self, who: str, to: str, host: str, port: int) -> Link:
        if (who, to) not in self.made:
            self.made[who, to] = self._network.link(host, port)
        return self.made[who, to]
