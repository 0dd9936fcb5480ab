"""The chart's README: its values, with the comments and defaults of values.yaml."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

_TEXT = """\
# Baton

A Kubernetes operator for fleets of queue consumers: it decides which pod owns which partition of a queue, and moves
ownership with nothing lost. Build its image with `make images` in a clone, and push it to your registry.

```sh
helm install baton charts/baton --namespace baton-system --create-namespace --set image.repository=REGISTRY/baton-operator
kubectl --namespace baton-system rollout status deployment/baton
helm test baton --namespace baton-system
```

`values.schema.json` has every value, so Helm refuses a typo.

## Values

Generated from `values.yaml` by `make generate`.

| Value | Default | |
|---|---|---|
"""


class Value(NamedTuple):
    name: str
    """Its path, such as `image.tag`."""
    default: Any
    """None for a map of values, each with a row."""
    about: str
    """The comment above it; may be empty."""


def values(text: str) -> list[Value]:
    """Every value of a values.yaml, and every map of values that has a comment."""
    root: Any = yaml.compose(text)
    return list(_values(root, text.splitlines(), ""))


def readme(text: str) -> str:
    rows = [
        f"| `{value.name}` | {'' if value.default is None else f'`{_shown(value.default)}`'} | {value.about} |"
        for value in values(text)
    ]
    return _TEXT + "\n".join(rows) + "\n"


def _values(node: yaml.MappingNode, lines: list[str], above: str) -> Iterator[Value]:
    for key, value in node.value:
        name, about = f"{above}{key.value}", _comment(lines, key.start_mark.line)
        if not isinstance(value, yaml.MappingNode) or not value.value:
            yield Value(name, yaml.safe_load(yaml.serialize(value)), about)
            continue
        if about:
            yield Value(name, None, about)
        yield from _values(value, lines, f"{name}.")


def _comment(lines: list[str], line: int) -> str:
    first = line
    while lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return " ".join(one.strip().removeprefix("#").strip() for one in lines[first:line]).replace("|", "\\|")


def _shown(default: Any) -> str:
    return default if isinstance(default, str) and default else json.dumps(default)
