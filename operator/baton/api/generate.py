"""Write the CRDs and their reference page: `python -m baton.api.generate` in the root of the repository."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from baton.api.crd import Document, crds
from baton.model.names import API_GROUP, API_VERSION

Schema = dict[str, Any]

_PAGE_HEADING = f"""# The resources

<!-- Generated from operator/baton/api by `make generate`. Do not edit. -->

Two namespaced resources of the API group `{API_GROUP}/{API_VERSION}`. Durations are whole seconds. `kubectl explain` shows every
field, such as `cg.status.proposal`. Contradicting fields are refused at apply, with a cure. A reference to a Secret has
`name` and `key`. [Conditions](conditions.md) have their own page.

```yaml
apiVersion: {API_GROUP}/{API_VERSION}
kind: PartitionedQueue
metadata: {{name: orders, namespace: shop}}
spec:
  source: {{type: Redis, redis: {{url: "redis://redis.shop:6379/0"}}}}
  partitions: 12
---
apiVersion: {API_GROUP}/{API_VERSION}
kind: ConsumerGroup
metadata: {{name: orders, namespace: shop}}
spec:
  queues: [{{name: orders}}]
```

| on a pod | |
|---|---|
| label `baton.dev/group: orders` | The pod's group. Ready pods with it are members. |
| annotation `baton.dev/subscribed: orders,returns` | The queues that the pod reads. Default: all of the group's. |
| annotation `baton.dev/assignors: range,solace` | [Assignors](../guides/change-assignor.md) it supports. Default: all. |
| annotation `baton.dev/capacity: "2"` | The pod's capacity relative to other pods, for assignors that use it. |
| annotation `baton.dev/drain: "true"` | The pod hands its partitions off and gets no others (`baton drain`). |

| annotation of a ConsumerGroup | |
|---|---|
| `baton.dev/rebalance: "…"` | A new value requests a rebalance (`baton rebalance`). |
| `baton.dev/take-over: "6f1c…"` | UIDs of deleted groups whose queues the group takes over. |
| `baton.dev/approve: <id>` | [Approves](../guides/approve.md) `status.proposal` (`baton approve`). |

The owners are in the ConfigMap `<group>-assignments`; `baton status <group>` shows them.
"""


def reference() -> str:
    """Return the text of the reference page."""
    return _PAGE_HEADING + "".join(_page(document) for document in crds())


def _page(document: Schema) -> str:
    kind = document["spec"]["names"]["kind"]
    short = document["spec"]["names"]["shortNames"][0]
    schema = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    spec, status = schema["properties"]["spec"], schema["properties"]["status"]
    return "".join(
        [
            f"\n## {kind} (`{short}`)\n\n{schema['description']}\n",
            f"\n### {kind}.spec\n\n| field | type | default | |\n|---|---|---|---|\n",
            *(_row(path, field, required) for path, field, required in _fields(spec) if not _only_holds_fields(field)),
            f"\n### {kind}.status\n\n| field | |\n|---|---|\n",
            *(f"| `{name}` | {_plain(field['description'])}{_inner(field)} |\n" for name, field in status["properties"].items()),
        ]
    )


def _fields(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema, bool]]:
    for name, field in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield here, field, name in schema.get("required", ())
        if not name.endswith("SecretRef"):
            items = field.get("items", {})
            yield from _fields(items, f"{here}[]") if items else _fields(field, here)


def _only_holds_fields(field: Schema) -> bool:
    """Whether the field needs no row of the table because its inner fields have one each."""
    return "properties" in field and "key" not in field["properties"]


def _inner(field: Schema) -> str:
    """Return a sentence with the names of the inner fields, or nothing."""
    inner = field.get("items", field).get("properties", {})
    return f" Fields: {', '.join(f'`{name}`' for name in inner)}." if inner and "lastTransitionTime" not in inner else ""


def _row(path: str, field: Schema, required: bool) -> str:
    default = ", ".join(filter(None, ("required" * required, _default(field))))
    return f"| `{path}` | {_type(field)} | {default} | {_plain(field['description'])} |\n"


def _plain(text: str) -> str:
    """Escape a text for a cell in Markdown: `|` would end the cell, and `<this>` would be taken for HTML."""
    return text.replace("|", "&#124;").replace("<", "&lt;")


def _default(field: Schema) -> str:
    key = field.get("properties", {}).get("key", {}).get("default")
    default = f"key: {key}" if key else field.get("default")
    match default:
        case None | {} | "":
            return ""
        case list():
            return f"`{', '.join(map(str, default))}`"
        case bool():
            return f"`{str(default).lower()}`"
        case _:
            return f"`{default}`"


def _type(field: Schema) -> str:
    values = field.get("enum") or (field.get("items") or {}).get("enum")
    if values:
        listed = ", ".join(f"`{value}`" for value in values)
        return f"list of {listed}" if "items" in field else listed
    if field["type"] == "array":
        return "list"
    if "minimum" in field:
        return f"{field['minimum']:,}–{field['maximum']:,}"
    return str(field["type"])


HEADING = "# Generated from operator/baton/api by `make generate`. Do not edit.\n"


def file_name(document: Document) -> str:
    """Return the name that controller-gen would give: `baton.dev_consumergroups.yaml`."""
    return f"{API_GROUP}_{document['spec']['names']['plural']}.yaml"


def text(document: Document) -> str:
    """Return the file's content; the same models give the same text."""
    return HEADING + yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=140)


def files(root: Path) -> dict[Path, str]:
    """Return the generated files of the repository with their content."""
    made = {root / "crds" / file_name(document): text(document) for document in crds()}
    return {**made, root / "docs" / "reference" / "resources.md": reference()}


def main() -> None:
    """Write the files below the working directory."""
    for path, content in files(Path()).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
