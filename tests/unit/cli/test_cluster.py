"""The cluster and the namespace of a command, and errors of a kubeconfig."""

import os
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from baton.cli.cluster import KubeconfigError, context_of, default_kubeconfig
from baton.cli.main import main
from baton.cli.options import ClusterTarget

USERS = {"users": [{"name": "me", "user": {}}]}
CLUSTERS = {"clusters": [{"name": "far", "cluster": {"server": "https://192.0.2.1"}}]}


def contexts(name: str, namespace: str | None = None) -> dict[str, Any]:
    return {"contexts": [{"name": name, "context": {"cluster": "far", "user": "me", "namespace": namespace}}]}


def written(folder: Path, content: Any, name: str = "config") -> Path:
    file = folder / name
    file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return file


def test_the_current_context_is_used(tmp_path: Path) -> None:
    file = written(tmp_path, {**CLUSTERS, **USERS, **contexts("home", "shop"), "current-context": "home"})
    assert context_of(file) == ("home", "shop")


def test_the_namespace_defaults_to_default(tmp_path: Path) -> None:
    assert context_of(written(tmp_path, {**CLUSTERS, **USERS, **contexts("home")}), "home") == ("home", "default")


def test_the_first_of_several_kubeconfigs_wins(tmp_path: Path) -> None:
    one = written(tmp_path, {**contexts("home", "first"), **USERS}, "one")
    two = written(tmp_path, {**contexts("home", "second"), **CLUSTERS, "current-context": "home"}, "two")
    three = written(tmp_path, {"current-context": "elsewhere"}, "three")
    files = Path(os.pathsep.join(map(str, (one, tmp_path / "missing", two, three))))
    assert context_of(files) == ("home", "first")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a: [", "line 1: not YAML"),
        ("\x00", "not a text in YAML"),
        ("", "not a kubeconfig"),
        ([], "not a kubeconfig"),
        ({**CLUSTERS, **USERS, **contexts("home")}, "current-context is not set: choose one of home, with --context"),
        ({**CLUSTERS, **USERS, **contexts("home"), "current-context": "hoem"}, "there is no context 'hoem': choose one of home"),
        ({**CLUSTERS, "contexts": 5}, "contexts is not a list of entries with names"),
        ({**USERS, **contexts("home"), "current-context": "home"}, "names no cluster with a server"),
        ({**CLUSTERS, **contexts("home"), "current-context": "home"}, "names no user of users"),
    ],
)
@pytest.mark.parametrize("command", ["status", "operator"])
def test_a_mistake_in_a_kubeconfig_is_one_line(tmp_path: Path, content: Any, said: str, command: str) -> None:
    done = CliRunner().invoke(main, [command, "--kubeconfig", str(written(tmp_path, content))])
    assert done.exit_code in (1, 2) and isinstance(done.exception, SystemExit)
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"baton {command}: {tmp_path}/config") and said in line


def test_an_unreadable_certificate_is_one_line(tmp_path: Path) -> None:
    cluster = {"server": "https://192.0.2.1", "certificate-authority-data": "!!x"}
    file = written(
        tmp_path, {**USERS, **contexts("home"), "current-context": "home", "clusters": [{"name": "far", "cluster": cluster}]}
    )
    done = CliRunner().invoke(main, ["status", "--kubeconfig", str(file)])
    assert done.exit_code == 1
    assert done.stderr.startswith(f"baton status: {file} cannot be used: ") and len(done.stderr.splitlines()) == 1


def test_a_missing_kubeconfig_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nothing"))
    assert default_kubeconfig() == tmp_path / "nothing"
    done = CliRunner().invoke(main, ["status"])
    assert done.exit_code == 1
    assert done.stderr == f"baton status: there is no kubeconfig {tmp_path}/nothing: use --kubeconfig FILE, or set KUBECONFIG\n"


def test_a_group_is_named_with_its_namespace_or_without() -> None:
    assert ClusterTarget(namespace="shop").within("orders") == ("orders", ClusterTarget(namespace="shop"))
    assert ClusterTarget(context="home").within("shop/orders") == ("orders", ClusterTarget(context="home", namespace="shop"))
    assert ClusterTarget(namespace="shop").within("shop/orders") == ("orders", ClusterTarget(namespace="shop"))


def test_two_namespaces_are_refused() -> None:
    with pytest.raises(click.UsageError, match="name two namespaces"):
        ClusterTarget(namespace="bank").within("shop/orders")


def test_a_kubeconfig_without_contexts_is_reported(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="it has no contexts at all"):
        context_of(written(tmp_path, {**CLUSTERS, **USERS, "current-context": "home"}))
