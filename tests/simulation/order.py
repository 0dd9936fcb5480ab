"""The same facts in another order: what is listed first must not matter."""

from collections.abc import Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def backwards(facts: Mapping[K, V]) -> dict[K, V]:
    return dict(reversed(list(facts.items())))
