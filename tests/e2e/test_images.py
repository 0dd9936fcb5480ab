"""The images that the Dockerfiles make: nobody's but an ordinary user's, labelled, and with a list of what is in them."""

import json
import re

import pytest
from packaging.utils import canonicalize_name

import baton
from cluster import built_images
from cluster.built_images import OPERATOR, SPARK, Image


@pytest.mark.parametrize(("image", "part"), [(OPERATOR, "operator"), (SPARK, "consumer")], ids=["operator", "spark"])
def test_an_image_is_an_ordinary_users_labelled_and_says_what_it_is_made_of(image: Image, part: str) -> None:
    built_images.build(image)
    made = built_images.configuration(image)
    assert int(made["User"]) > 0
    labels = {name.rpartition(".")[2]: value for name, value in made["Labels"].items() if "opencontainers" in name}
    assert (labels["version"], labels["licenses"]) == (baton.__version__, "Apache-2.0")
    with built_images.contents(image) as root:
        listed = json.loads((root / "opt" / "baton" / "sbom.cdx.json").read_text())["components"]
        assert not (root / "opt" / "sbom").exists() and not (root / "src").exists(), "what only the build needs"
    packages = {(canonicalize_name(one["name"]), one["version"]) for one in listed}
    assert (f"baton-{part}", baton.__version__) in packages
    locked = image.dockerfile.with_name("requirements.lock").read_text()
    pinned = {(canonicalize_name(name), version) for name, version in re.findall(r"^([\w.-]+)==([\w.+-]+)", locked, re.MULTILINE)}
    assert pinned
    assert pinned - packages == set()
