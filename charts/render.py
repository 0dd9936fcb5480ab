"""Writes what is made for the chart, its CRDs, dashboard and README, and from it manifests/install.yaml, for those without helm.

Run as `python -m charts.render` (part of `make generate`). `rendered()` gives the same files without writing, so that a test
can say which of them is out of date.
"""

import subprocess
from pathlib import Path

from charts.dashboard import dashboard
from charts.readme import readme

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "charts" / "baton"
NAMESPACE = "baton-system"

_HEADER = """\
# Baton, complete: namespace, CRDs, RBAC, Deployment. Rendered from charts/baton; do not edit, run `make generate`.
#   kubectl apply -f install.yaml
"""
_NAMESPACE = f"""\
apiVersion: v1
kind: Namespace
metadata:
  name: {NAMESPACE}
  labels:
    # The operator meets the strictest profile; the namespace holds everything in it to that.
    pod-security.kubernetes.io/enforce: restricted
"""
_HELM_ONLY = ("helm.sh/chart:", "app.kubernetes.io/managed-by:", "# Source:")


def crds() -> dict[str, str]:
    """File name -> text of the generated CRDs."""
    return {path.name: path.read_text() for path in sorted((ROOT / "crds").glob("*.yaml"))}


def template(helm: Path, namespace: str, *arguments: str) -> list[str | Path]:
    """The command that prints what `helm install baton charts/baton` with these arguments would apply."""
    return [helm, "template", "baton", CHART, "--namespace", namespace, *arguments]


def install_manifest(helm: Path) -> str:
    """What `helm install baton charts/baton` would apply with its default values, and before it the namespace and the CRDs."""
    output = subprocess.run(
        template(helm, NAMESPACE, "--skip-crds", "--no-hooks"), check=True, capture_output=True, text=True
    ).stdout
    lines = [line for line in output.splitlines() if not line.strip().startswith(_HELM_ONLY)]
    documents = [text.removeprefix("---\n").strip("\n") for text in (_NAMESPACE, *crds().values())]
    return _HEADER + "---\n" + "\n---\n".join([*documents, "\n".join(lines).removeprefix("---").strip("\n")]) + "\n"


def rendered(helm: Path) -> dict[Path, str]:
    """Path -> text of every file that this module writes."""
    copies = {CHART / "crds" / name: text for name, text in crds().items()}
    return {
        **copies,
        CHART / "README.md": readme((CHART / "values.yaml").read_text()),
        CHART / "files" / "dashboard.json": dashboard(),
        ROOT / "manifests" / "install.yaml": install_manifest(helm),
    }


def stale_files() -> set[Path]:
    """CRDs in the chart that are generated no longer."""
    return {path for path in (CHART / "crds").glob("*.yaml") if path.name not in crds()}


def main() -> None:
    from cluster import helm_binary

    for path in stale_files():
        path.unlink()
    for path, text in rendered(helm_binary()).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
