"""The documentation's links lead somewhere, every option of the command is in it, and what it says to type works."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click
import pytest
import yaml
from click.testing import CliRunner

import baton.consumer
import baton.producers
import baton.spark
import baton.testing
from baton.cli.main import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = ROOT / "manifests" / "examples"
SHOWN = [
    *PAGES,
    *(path for top in ("manifests", "charts", "operator") for path in sorted((ROOT / top).rglob("*")) if path.is_file()),
]
"""What a user reads, or copies from."""
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def broken(page: Path) -> Iterator[str]:
    for link in LINK.findall(page.read_text()):
        path, _, anchor = link.partition("#")
        if re.match(r"\w+:", path):
            continue
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    assert list(broken(page)) == []


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    """Of mkdocs.yml, which `make docs` builds."""
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    assert sorted(re.findall(r"[\w./-]+\.md", nav)) == sorted(str(page.relative_to(ROOT)) for page in PAGES)


def test_every_page_can_be_reached() -> None:
    linked = {(page.parent / link.partition("#")[0]).resolve() for page in PAGES for link in LINK.findall(page.read_text())}
    assert [page for page in PAGES if page.name != "README.md" and page.resolve() not in linked] == []


@pytest.mark.parametrize("name", main.list_commands(click.Context(main)))
def test_every_option_of_a_command_is_documented(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    text = "".join((ROOT / "docs" / "reference" / f"{page}.md").read_text() for page in ("commands", "plan", "simulate"))
    commands = [command, *command.commands.values()] if isinstance(command, click.Group) else [command]
    options = [max(one.opts, key=len) for each in commands for one in each.params if isinstance(one, click.Option)]
    assert [option for option in options if option not in text] == []


def texts(pattern: str) -> Iterator[tuple[str, re.Match[str]]]:
    """Where it is found in what a user reads, with lines that go on after a backslash put together."""
    for page in SHOWN:
        if page.suffix in (".md", ".py", ".yaml", ".txt", ".tpl", ".toml") or page.name == "Dockerfile":
            text = page.read_text().replace("\\\n", " ")
            yield from ((str(page.relative_to(ROOT)), found) for found in re.finditer(pattern, text))


def test_a_url_names_the_namespace_of_its_host() -> None:
    """`redis` alone is known in the Service's own namespace only, and the operator reads the URL in another."""
    hosts = [(page, found[1]) for page, found in texts(r"rediss?://(?:[\w.:$() -]*@)?([a-z][\w.-]*)(?![\w.@-])")]
    assert len(hosts) > 10
    assert [(page, host) for page, host in hosts if "." not in host and host != "host"] == []


def test_an_upgrade_keeps_the_values_of_the_installation() -> None:
    upgrades = [(page, found[0]) for page, found in texts(r"helm upgrade baton .*") if page != "CHANGELOG.md"]
    assert len(upgrades) > 1
    assert [(page, line) for page, line in upgrades if "--reset-then-reuse-values" not in line] == []


BUILDS = {found[2]: found[1] for _, found in texts(r"# .*?(docker build -f \S+ -t (\S+) \.)")}
"""By the image: how a Dockerfile says that it is built."""
PUBLISHED = {"redis:7.2"}
"""Images of others, which are not built."""


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*/*.yaml")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_image_that_an_example_runs_is_built_by_a_guide(file: Path) -> None:
    guides = "".join(page.read_text() for page in (ROOT / "docs").rglob("*.md"))
    for image in re.findall(r"(?:image: |_IMAGE, value: \")([\w./:-]+)", file.read_text()):
        assert image in PUBLISHED or BUILDS[image] in guides


def test_an_image_on_top_of_the_operators_names_its_base() -> None:
    builds = [(page, found[0]) for page, found in texts(r"docker build .*by-load .*")]
    assert len(builds) > 1
    assert [(page, line) for page, line in builds if "--build-arg BATON=" not in line] == []


def test_a_request_over_several_lines_is_not_given_to_a_pipe() -> None:
    """Standard input has one request per line."""
    assert [(page, found[0]) for page, found in texts(r"baton plan[^\n<]*< \S+(?<!\.jsonl)(?!\S)")] == []


FOR_DEVELOPERS = [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs" / "development").glob("*.md"))]


@pytest.mark.parametrize("page", FOR_DEVELOPERS, ids=lambda path: path.stem)
def test_the_paths_in_pages_for_developers_exist(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    named = re.findall(r"`([\w.-]+(?:/[\w.-]+)+/?)`", prose)
    modules = {str(path) for top in ("operator", "cluster", "demo", "tests") for path in (ROOT / top).rglob("*.py")}
    assert [
        path for path in named if not (ROOT / path).exists() and not any(module.endswith(f"/{path}") for module in modules)
    ] == []


def test_every_room_is_in_the_table_for_developers() -> None:
    packages = {f"operator/baton/{path.parent.name}" for path in (ROOT / "operator" / "baton").glob("*/__init__.py")}
    rooms = {f"{path.name}/" for path in ROOT.iterdir() if path.is_dir() and next(path.glob("*.py"), None)}
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("## The rooms")[2].partition("\n## ")[0]
    assert {name for name in packages | rooms if f"`{name}`" not in table} == set()


PACKAGES = pytest.mark.parametrize(
    "package", [baton.consumer, baton.producers, baton.spark, baton.testing], ids=lambda package: str(package.__name__)
)


@PACKAGES
def test_every_name_that_a_package_exports_is_in_the_reference(package: ModuleType) -> None:
    page = (ROOT / "docs" / "reference" / "python.md").read_text()
    members = page.partition(f"::: {package.__name__}\n")[2].partition("members: [")[2].partition("]")[0]
    assert sorted(members.split(", ")) == sorted(package.__all__)


@PACKAGES
def test_every_export_is_documented_with_an_example(package: ModuleType) -> None:
    """The page of the site is made of these."""
    exported = {name: getattr(package, name) for name in package.__all__}
    described = {name: one for name, one in exported.items() if inspect.isclass(one) or inspect.isfunction(one)}
    examples = {name: re.findall(r"```python\n(.*?)```", inspect.getdoc(one) or "", re.DOTALL) for name, one in described.items()}
    assert exported.keys() - described.keys() <= {"Headers"}
    assert [name for name, found in examples.items() if not found] == []
    for code in (code for found in examples.values() for code in found):
        compile(code, "an example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    members = [(name, attribute, getattr(one, attribute)) for name, one in described.items() for attribute in vars(one)]
    assert [
        f"{name}.{attribute}"
        for name, attribute, member in members
        if attribute[0] != "_" and (callable(member) or isinstance(member, property)) and not inspect.getdoc(member)
    ] == []


def test_the_scenario_of_the_reference_passes(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "reference" / "simulate.md").read_text()
    file = tmp_path / "scenario.yaml"
    file.write_text(page.partition("## A scenario")[2].partition("```yaml\n")[2].partition("```")[0])
    assert yaml.safe_load(file.read_text())["expect"]
    result = CliRunner().invoke(main, ["simulate", "--check", str(file)])
    assert (result.exit_code, result.output) == (0, f"{file}: ok\n")
