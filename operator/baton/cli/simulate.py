"""`baton simulate`: what a setting would do to a fleet, before it is changed."""

import json
import sys
from pathlib import Path

import click

from baton.simulation import Result, ScenarioError, failures, picture, read_scenario
from baton.simulation import simulate as run


@click.command()
@click.argument("scenarios", metavar="SCENARIO.yaml...", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line; the last is the summary.")
@click.option("--check", is_flag=True, help="Compare with what the files expect; exit 1 and say what failed.")
def simulate(scenarios: tuple[Path, ...], as_json: bool, check: bool) -> None:
    """Live through a scenario in virtual time: who joins and leaves when, and what Baton does about it.

    The same engine as the operator's runs against simulated consumers and queues; no cluster is needed.
    """
    if check:
        _check(scenarios)
        return
    for path in scenarios:
        result = _run(path)
        if as_json:
            for line in result.lines:
                click.echo(json.dumps(line, separators=(",", ":"), ensure_ascii=False))
        else:
            for text in picture(result):
                click.echo(text)


def _check(paths: tuple[Path, ...]) -> None:
    failed = 0
    for path in paths:
        try:
            scenario = read_scenario(path)
            found = failures(scenario.expect, run(scenario))
        except ScenarioError as error:
            failed += 1
            click.echo(str(error), err=True)
            continue
        failed += bool(found)
        click.echo(f"{path}: {'ok' if not found else 'failed'}")
        for sentence in found:
            click.echo(f"{path}: {sentence}", err=True)
    if failed:
        sys.exit(1)


def _run(path: Path) -> Result:
    try:
        return run(read_scenario(path))
    except ScenarioError as error:
        click.echo(str(error), err=True)
        sys.exit(2)
