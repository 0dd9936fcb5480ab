"""The broker's jars and a formatted data directory, fetched and made once, and kept in the cache."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.made_once import fetch_jars, made_once, run

HERE = Path(__file__).parent
CLUSTER_ID = "bWFkZS1mb3ItdGVzdHM"
USERS = {"operator": "operator's password", "pod": "pod's password", "stranger": "stranger's password"}
"""With SCRAM-SHA-512; what each may do, a test says by ACLs."""
_FORMAT = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:1
listeners=CONTROLLER://127.0.0.1:1,PLAIN://127.0.0.1:2
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAIN:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAIN
log.dirs={data}
"""


def place() -> Path:
    """The folder with `lib` and `data`, made if it is not there. Raises RuntimeError with what failed."""
    return made_once("kafka", (HERE / "pom.xml", Path(__file__)), _make)


def java(main: str, *arguments: str, lib: Path, options: Sequence[str] = ()) -> list[str]:
    """The command that runs a class of Kafka's."""
    return ["java", *options, "-cp", f"{lib}/*", main, *arguments]


def _make(work: Path) -> None:
    fetch_jars(HERE / "pom.xml", work / "lib")
    configuration = work / "format.properties"
    configuration.write_text(_FORMAT.format(data=work / "data"))
    scram: Mapping[str, str] = {"SCRAM-SHA-512": "name={},password={}"}
    users = [f"{mechanism}=[{form.format(*user)}]" for mechanism, form in scram.items() for user in USERS.items()]
    flags = [word for user in users for word in ("--add-scram", user)]
    run(java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(configuration), *flags, lib=work / "lib"))
