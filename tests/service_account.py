"""What a pod's service account is mounted as, for a process that no kubelet started."""

from pathlib import Path
from shutil import copyfile
from typing import Any
from urllib.parse import urlsplit

import kubernetes

from baton.consumer.api_server import ApiConnection


def mounted(kubeconfig: Path, folder: Path, token: str) -> ApiConnection:
    """The connection that `baton.consumer` has in a pod with this token."""
    settings: Any = kubernetes.client.Configuration()
    load: Any = kubernetes.config.load_kube_config
    load(config_file=str(kubeconfig), client_configuration=settings)
    server = urlsplit(settings.host)
    folder.mkdir(exist_ok=True)
    copyfile(settings.ssl_ca_cert, folder / "ca.crt")
    (folder / "token").write_text(token)
    environment = {"KUBERNETES_SERVICE_HOST": str(server.hostname), "KUBERNETES_SERVICE_PORT": str(server.port)}
    return ApiConnection.in_pod(folder, environment)
