"""The command `baton`: wrong calls, help and completion."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click import Context
from click.testing import CliRunner

from baton.cli.main import SHELLS, main
from tests.listener import Listener
from tests.processes import ChildProcess


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("statsu", "No such command 'statsu'. Did you mean status?"),
        ("rebalence orders", "No such command 'rebalence'. Did you mean rebalance?"),
        ("qqqq", "No such command 'qqqq'."),
        ("-n shop status", "No such option '-n' here: put options after the command: baton status -n …"),
        ("--context kind lag orders", "No such option '--context' here: put options after the command: baton lag --context …"),
        ("-A", "No such option '-A' here: put options after the command: baton COMMAND -A …"),
        ("dead-letters -n shop list orders", "put options after the command: baton dead-letters list -n …"),
        ("dead-letters lst orders", "No such command 'lst'. Did you mean list?"),
    ],
)
def test_a_misspelt_command_gets_a_hint(typed: str, hint: str) -> None:
    done = CliRunner().invoke(main, typed.split(), prog_name="baton")
    assert (done.exit_code, done.stderr.splitlines()[-1].endswith(hint)) == (2, True), done.stderr


def test_help_and_version_need_no_command() -> None:
    for option in ("--help", "-h", "--version"):
        assert CliRunner().invoke(main, [option]).exit_code == 0


def test_typed_text_is_not_printed_raw() -> None:
    assert "\x1b" not in CliRunner().invoke(main, ["\x1b[31mred"]).stderr


def test_help_and_completion_load_no_command() -> None:
    program = """if True:
        import sys
        from click import Context
        from baton.cli.main import main
        print(len(main.shell_complete(Context(main), "st")))
        main(["--help"], standalone_mode=False)
        print(*[one for one in sys.modules if one.startswith(("baton.cli.st", "baton.console", "kubernetes"))])
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    completed, *help_text, loaded = done.stdout.splitlines()
    assert (completed, loaded) == ("1", "")
    assert "  status        Show a ConsumerGroup: its state, owners and hand-offs" in help_text


@pytest.mark.parametrize("group", ["dev", "offsets", "dead-letters"])
def test_help_has_whole_sentences_for_subcommands(group: str) -> None:
    commands = CliRunner().invoke(main, [group, "--help"]).output.partition("\nCommands:\n")[2]
    assert commands.strip() and "..." not in commands


def test_every_command_has_a_one_line_summary() -> None:
    context = Context(main)
    for name in main.list_commands(context):
        assert main.get_command(context, name) is not None
    assert "..." not in "".join(CliRunner().invoke(main, ["--help"]).output.split("COMMAND [ARGS]..."))
    assert len(CliRunner().invoke(main, ["--help"]).output.splitlines()) == 9 + len(main.list_commands(context))


BATON = Path(sys.executable).parent / "baton"


def test_a_full_output_is_reported_in_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([BATON, "check-order", "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr.splitlines()) == (
        1,
        ["baton: cannot write the output: No space left on device: redirect it elsewhere"],
    )


def test_an_unreachable_kafka_is_reported_with_cause_and_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("baton.queues.kafka.onlooker._ANSWERS_WITHIN", 1.0)
    said = CliRunner().invoke(main, ["peek", "b", "--partition", "0", "--kafka-url", "kafka://127.0.0.1:1"]).stderr
    assert "Kafka at 127.0.0.1:1 has not answered within 1 s (127.0.0.1:1/bootstrap: " in said
    assert "Connection refused" in said and said.endswith("or correct the address\n")


def test_a_user_without_a_home_gets_a_clear_kubeconfig_error() -> None:
    """As in a container whose user is not in /etc/passwd."""
    nowhere = {**os.environ, "HOME": "~", "KUBECONFIG": "~nobody-of-this-name/config"}
    done = subprocess.run([BATON, "status"], capture_output=True, text=True, check=False, env=nowhere)
    assert (done.returncode, done.stderr) == (
        1,
        "baton status: there is no kubeconfig ~nobody-of-this-name/config: use --kubeconfig FILE, or set KUBECONFIG\n",
    )


@pytest.mark.parametrize(
    ("command", "what"),
    [("peek a/b --partition 0 --redis-url redis://{}", "the server of a/b"), ("status --kubeconfig kubeconfig", "http://{}")],
)
def test_a_silent_server_is_named_while_waiting(command: str, what: str, tmp_path: Path) -> None:
    taken: list[socket.socket] = []
    silent = Listener(taken.append)
    cluster = f"clusters: [{{name: c, cluster: {{server: 'http://{silent.place}'}}}}]"
    context = "contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x"
    (tmp_path / "kubeconfig").write_text(f"{cluster}\nusers: [{{name: u, user: {{token: t}}}}]\n{context}\n")
    words = [str(BATON), *command.format(silent.place).split()]
    with ChildProcess(words, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == f"Waiting for {what.format(silent.place)} …\n"
        silent.close()
        for connection in taken:
            connection.close()
        assert f"{silent.place} does not answer" in process.stderr.read()


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_a_completion_script(shell: str) -> None:
    done = subprocess.run([BATON, "completion", shell], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "_BATON_COMPLETE" in done.stdout


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("baton re", ["rebalance", "resume"]),
        ("baton status --all", ["--all-namespaces"]),
        ("baton offsets ", ["reset", "show"]),
        ("baton offsets reset orders --dr", ["--dry-run"]),
        ("baton offsets orders --out", ["--output"]),
        ("baton bundle --f", ["--file"]),
    ],
)
def test_bash_completes_commands_and_options(typed: str, wanted: list[str]) -> None:
    """As it does when Tab is pressed."""
    script = subprocess.run([BATON, "completion", "bash"], capture_output=True, text=True, check=True).stdout
    words = typed.split(" ")
    ask = f'COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _baton_completion baton; printf "%s\\n" "${{COMPREPLY[@]}}"'
    path = f"PATH={BATON.parent}:$PATH"
    done = subprocess.run(["bash", "-c", f"{path}\n{script}\n{ask}"], capture_output=True, text=True, check=False)
    assert done.stdout.split() == wanted, done.stderr
