"""`baton simulate`: try a setting on a simulated fleet."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click
from rich.text import Text

from baton.cli.options import GROUP
from baton.cli.own_assignors import use_own_assignors
from baton.cli.printing import console, printable, say, say_json
from baton.simulation import (
    Result,
    Scenario,
    ScenarioError,
    Setting,
    TooMuchWork,
    chart,
    failures,
    history,
    log_lines,
    parse_scenario,
    read_raw,
    read_scenario,
    read_setting,
    svg,
    table,
    variants,
    verdict,
)
from baton.simulation import simulate as run


@click.command()
@click.argument("scenarios", metavar="SCENARIO.yaml...", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line. The last is the summary.")
@click.option(
    "--check",
    is_flag=True,
    help="Compare results with the files' expectations, and show differences. Exits with 1 if there are any.",
)
@click.option("--svg", "drawing", type=click.Path(dir_okay=False, path_type=Path), help="Also draw the timeline as SVG to FILE.")
@click.option("--story", "in_words", is_flag=True, help="Also list all events with their reasons.")
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="PATH=VALUE[,VALUE...]",
    help="Change a value of the file, such as group.rebalance.delaySeconds=5. Several values: print a table of their costs.",
)
@click.option("--group", type=GROUP, metavar="[NAMESPACE/]NAME", help="The ConsumerGroup to simulate, if a file has several.")
def simulate(
    scenarios: tuple[Path, ...],
    as_json: bool,
    check: bool,
    drawing: Path | None,
    in_words: bool,
    changes: tuple[str, ...],
    group: str | None,
) -> None:
    """Simulate a scenario in virtual time: pods join and leave, and Baton hands partitions off.

    The operator's engine runs against simulated consumers and queues; no cluster is needed. A file may also contain resources, as
    printed by `kubectl get cg,pq -o yaml`: then a fleet joins, grows by one pod, loses one and replaces one.
    """
    if check and (drawing or in_words or changes):
        raise click.UsageError("--check compares unchanged files: omit --svg, --story and --set")
    if drawing is not None and len(scenarios) > 1:
        raise click.UsageError("--svg draws one scenario: name one file")
    use_own_assignors()
    if check:
        _check(scenarios, as_json, group)
        return
    try:
        settings = [read_setting(change) for change in changes]
        several = any(len(setting.values) > 1 for setting in settings)
        if several and (as_json or drawing or in_words):
            raise click.UsageError("--set with several values prints a table: omit --json, --svg and --story")
        for path in scenarios:
            if several:
                _compare(path, settings, group, named=len(scenarios) > 1)
            else:
                [(_, raw)] = variants(read_raw(path, group), settings)
                title = ", ".join([path.stem, *changes])
                _live(path, parse_scenario(raw, str(path)), title, as_json, drawing, in_words)
    except ScenarioError as error:
        say(str(error), error=True)
        sys.exit(2)


def _live(path: Path, scenario: Scenario, title: str, as_json: bool, drawing: Path | None, in_words: bool) -> None:
    result = _run(scenario, path)
    if drawing is not None:
        _draw(drawing, title, scenario, result)
    if as_json:
        _print_lines(result)
    else:
        _show(scenario, result, in_words)


def _run(scenario: Scenario, path: Path) -> Result:
    try:
        return run(scenario)
    except TooMuchWork as error:
        raise ScenarioError(f"{path}: {error}") from None


def _print_lines(result: Result) -> None:
    for line in result.lines:
        say_json(line, separators=(",", ":"), ensure_ascii=False)


def _compare(path: Path, settings: Sequence[Setting], group: str | None, *, named: bool) -> None:
    rows = [(words, _run(parse_scenario(raw, str(path)), path)) for words, raw in variants(read_raw(path, group), settings)]
    if named:
        say(f"{path}:")
    for line in table(settings, rows):
        say(line)


def _draw(file: Path, title: str, scenario: Scenario, result: Result) -> None:
    try:
        file.write_text(svg(history(scenario, result), title, list(verdict(result))), encoding="utf-8")
    except OSError as error:
        say(f"{file}: {error.strerror}", error=True)
        sys.exit(2)


def _show(scenario: Scenario, result: Result, in_words: bool) -> None:
    on = console(soft_wrap=True)
    coloured = on.is_terminal and not on.no_color and on.color_system is not None
    if in_words:
        for sentence in log_lines(result):
            on.print(Text(printable(sentence)))
        on.print()
    width = max(60, min(on.width, 200)) if on.is_terminal else 120
    for line in chart(history(scenario, result), width, coloured=coloured):
        on.print(Text.assemble(*((printable(ran.text), ran.style if coloured else "") for ran in line)))
    on.print()
    for sentence in verdict(result):
        on.print(Text(printable(sentence)))


def _check(paths: tuple[Path, ...], as_json: bool, group: str | None) -> None:
    """Check the files. With `as_json` standard output has the results' lines only; verdicts go to standard error."""
    failed = 0
    for path in paths:
        try:
            scenario = read_scenario(path, group)
            result = _run(scenario, path)
            found = failures(scenario.expect, result)
        except ScenarioError as error:
            failed += 1
            say(str(error), error=True)
            continue
        failed += bool(found)
        if as_json:
            _print_lines(result)
        say(f"{path}: {'ok' if not found else 'failed'}", error=as_json)
        for sentence in found:
            say(f"{path}: {sentence}", error=True)
    if failed:
        sys.exit(1)
