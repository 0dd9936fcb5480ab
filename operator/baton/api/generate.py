"""`python -m baton.api.generate`, in the repository's root: writes the CRDs and their reference page."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from baton.api.crd import Document, crds
from baton.model.names import API_GROUP, API_VERSION

# docs/reference/resources.md: the fields of the resources, from the same models as the CRDs.


Schema = dict[str, Any]

_PAGE_HEADING = f"""# The resources

<!-- Generated from operator/baton/api by `make generate`. Do not edit. -->

Two namespaced resources of the API group `{API_GROUP}/{API_VERSION}`. Durations are whole seconds. `kubectl explain cg.spec` and
`kubectl explain pq.spec` show the same. Fields that contradict each other are refused at apply, with the cure. A reference to a
Secret has `name` and `key`. [Conditions](conditions.md) have a page.

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

| label or annotation | on | meaning |
|---|---|---|
| label `baton.dev/group: orders` | pod | The pod's group. Ready pods with it are members. |
| annotation `baton.dev/subscribed: orders,returns` | pod | The queues that the pod reads. Default: all of the group's. |
| annotation `baton.dev/assignors: range,solace` | pod | The [assignors](../guides/change-assignor.md) it knows. Default: all. |
| annotation `baton.dev/capacity: "2"` | pod | Its capacity relative to other pods, for assignors that use it. |
| annotation `baton.dev/drain: "true"` | pod | The pod gives its partitions away and gets none (`baton drain`). |
| annotation `baton.dev/rebalance: "…"` | ConsumerGroup | A new value requests a rebalance (`baton rebalance`). |
| annotation `baton.dev/take-over: "6f1c…"` | ConsumerGroup | UIDs of deleted groups whose queues it takes over. |
| annotation `baton.dev/approve: <id>` | ConsumerGroup | [Approves](../guides/approve.md) `status.proposal` (`baton approve`). |

The owners are in the ConfigMap `<group>-assignments`; `baton status <group>` shows them.
"""


def reference() -> str:
    """The page's text."""
    return _PAGE_HEADING + "".join(_page(document) for document in crds())


def _page(document: Schema) -> str:
    kind = document["spec"]["names"]["kind"]
    short = document["spec"]["names"]["shortNames"][0]
    schema = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    parts = [f"\n## {kind} (`{short}`)\n\n{schema['description']}\n"]
    for part in ("spec", "status"):
        parts.append(f"\n### {kind}.{part}\n\n| field | type | default | meaning |\n|---|---|---|---|\n")
        parts += [_row(path, field, required) for path, field, required in _fields(schema["properties"][part])]
    return "".join(parts)


def _fields(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema, bool]]:
    for name, field in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield here, field, name in schema.get("required", ())
        items = field.get("items", {})
        if name != "conditions" and not name.endswith("SecretRef"):
            yield from _fields(items, f"{here}[]") if items else _fields(field, here)


def _row(path: str, field: Schema, required: bool) -> str:
    default = ", ".join(filter(None, ("required" * required, _default(field))))
    return f"| `{path}` | {_type(field)} | {default} | {_plain(field['description'])} |\n"


def _plain(text: str) -> str:
    """A text as Markdown shows it: a bar would end the cell, and <this> would be taken for HTML."""
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
    limits = [f"{sign} {field[name]}" for name, sign in (("minimum", "≥"), ("maximum", "≤")) if name in field]
    kind: str = field["format"] if field["type"] == "string" and "format" in field else field["type"]
    return " ".join([kind, *limits])


# The files


HEADING = "# Generated from operator/baton/api by `make generate`. Do not edit.\n"


def file_name(document: Document) -> str:
    """`baton.dev_consumergroups.yaml`, as controller-gen names them."""
    return f"{API_GROUP}_{document['spec']['names']['plural']}.yaml"


def text(document: Document) -> str:
    """The file's content; the same models give the same text."""
    return HEADING + yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=140)


def files(root: Path) -> dict[Path, str]:
    """All that is generated below the repository's root, with its content."""
    made = {root / "crds" / file_name(document): text(document) for document in crds()}
    return {**made, root / "docs" / "reference" / "resources.md": reference()}


def main() -> None:
    """Writes the files below the working directory."""
    for path, content in files(Path()).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
