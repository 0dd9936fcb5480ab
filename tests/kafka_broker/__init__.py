"""A real Kafka broker (KRaft) for tests: on free ports, in a directory of its own, gone afterwards."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import admin as kafka_admin
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from cluster.ports import free_ports
from tests.kafka_broker import jars
from tests.processes import ChildProcess, Freezable
from tests.self_signed import self_signed
from tests.waiting import PATIENCE, until

SOON = ("-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""Options of JVMs that live for minutes at most."""
STARTS_WITHIN = 4 * PATIENCE
"""Seconds."""
_CONFIGURATION = """node.id={node}
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAIN://{address}:{plain},SASL://{address}:{sasl},TLS://{address}:{tls},MUTUAL://{address}:{mutual}{roles}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAIN:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SASL_SSL,MUTUAL:SSL
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAIN
log.dirs={data}
sasl.enabled.mechanisms=SCRAM-SHA-512,SCRAM-SHA-256
listener.name.tls.sasl.enabled.mechanisms=SCRAM-SHA-512,SCRAM-SHA-256,PLAIN
listener.name.sasl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.tls.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.tls.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.tls.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required {users};
ssl.keystore.type=PEM
ssl.keystore.location={keys}
listener.name.mutual.ssl.client.auth=required
listener.name.mutual.ssl.truststore.type=PEM
listener.name.mutual.ssl.truststore.location={ca}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=2
group.initial.rebalance.delay.ms=0
"""
_LOGGING = """<Configuration><Appenders><Console name="out"><PatternLayout pattern="%d %p %c{1} %m%n"/></Console></Appenders>
<Loggers><Root level="warn"><AppenderRef ref="out"/></Root></Loggers></Configuration>"""


ORDERED: Mapping[str, Any] = {"enable.idempotence": True}
"""For a producer whose messages keep their order when one is sent once more: the leader of a new topic is not there at once."""


def _remove_what_killed_runs_left() -> None:
    for left in Path(tempfile.gettempdir()).glob("baton-kafka-*-*"):
        pid = left.name.split("-")[2]
        if pid.isdecimal() and not Path("/proc", pid).exists():
            shutil.rmtree(left, ignore_errors=True)


class KafkaBroker(Freezable):
    """A context manager; the broker also dies with the process that started it. Keeps its ports and its data over `kill` and
    `start`."""

    def __init__(
        self,
        settings: Mapping[str, str] = {},
        *,
        node: int = 1,
        joins: "KafkaBroker | None" = None,
        address: str = "127.0.0.1",
        port: int | None = None,
        measured: bool = False,
    ) -> None:
        """`settings`: further ones of the broker. `node`: its id. `joins`: the broker that is its controller, too; None: it is
        its own, and its id is 1. `address`: of this machine, where clients find it. `port`: of those without a password; None: a
        free one. `measured`: its JVM is to be as fast as those of real brokers, instead of to start soon."""
        _remove_what_killed_runs_left()
        made = jars.place()
        self._lib = made / "lib"
        self.node, self.address = node, address
        self.directory = Path(tempfile.mkdtemp(prefix=f"baton-kafka-{os.getpid()}-"))
        self.data = self.directory / "data"
        """Its logs."""
        if joins is None:
            shutil.copytree(made / "data", self.data)
        else:
            self.data.mkdir()
            (self.data / "meta.properties").write_text(f"version=1\ncluster.id={jars.CLUSTER_ID}\nnode.id={node}\n")
        ports = free_ports(address)
        self.port, self.sasl_port, self.tls_port, self.mutual_port, own_controller = (next(ports) for _ in range(5))
        self.port = self.port if port is None else port
        self.controller_port: int = own_controller if joins is None else joins.controller_port
        controls = f",CONTROLLER://127.0.0.1:{self.controller_port}\nprocess.roles=broker,controller"
        keys = self_signed(self.directory, address)
        self.keys = keys
        """What the broker shows; it also trusts it, so a client may show it, too."""
        text = keys.read_text()
        self.ca = self.directory / "ca.pem"
        self.ca.write_text(text[text.index("-----BEGIN CERTIFICATE") :])
        (self.directory / "log4j2.xml").write_text(_LOGGING)
        self._configuration = self.directory / "server.properties"
        self._configuration.write_text(
            _CONFIGURATION.format(
                node=node,
                address=address,
                roles=controls if joins is None else "\nprocess.roles=broker",
                plain=self.port,
                users=" ".join(f'user_{name}="{password}"' for name, password in jars.USERS.items()),
                sasl=self.sasl_port,
                tls=self.tls_port,
                mutual=self.mutual_port,
                ca=self.ca,
                controller=self.controller_port,
                data=self.data,
                keys=keys,
            )
            + "".join(f"{key}={value}\n" for key, value in settings.items())
        )
        self._options = () if measured else SOON
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def servers(self) -> str:
        """Without a password: every client here may do everything."""
        return f"{self.address}:{self.port}"

    def admin(self, settings: Mapping[str, str] = {}) -> AdminClient:
        """A client of its own, without Baton's."""
        return AdminClient({"bootstrap.servers": self.servers, **settings})

    def make_topic(self, name: str, partitions: int = 4, **configuration: str) -> None:
        settings = {key.replace("_", "."): value for key, value in configuration.items()}
        admin = self.admin()  # what is asked of it ends with it
        admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(PATIENCE)
        until(lambda: name in admin.list_topics(timeout=PATIENCE).topics, f"the broker tells of the topic {name}")

    def make_users(self, mechanism: Any) -> None:
        """Those of `jars.USERS`, with a SCRAM that they do not have from the beginning."""
        kafka: Any = kafka_admin
        how = kafka.ScramCredentialInfo(mechanism, 4096)
        made = [
            kafka.UserScramCredentialUpsertion(name, how, password.encode(), os.urandom(16))
            for name, password in jars.USERS.items()
        ]
        admin = self.admin()
        for done in admin.alter_user_scram_credentials(made).values():
            done.result(PATIENCE)

    def configure_topic(self, name: str, key: str, value: str) -> None:
        kafka: Any = kafka_admin  # its types export none of these
        entry = kafka.ConfigEntry(key, value, incremental_operation=kafka.AlterConfigOpType.SET)
        changed = kafka.ConfigResource(kafka.ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
        admin = self.admin()  # it is asked until it has answered
        admin.incremental_alter_configs([changed])[changed].result(PATIENCE)

    def tell_sasl_port(self, port: int) -> None:
        """From its next start on, clients of SASL are told to come to this port: what stands there leads to the broker's own."""
        told = {"PLAIN": self.port, "SASL": port, "TLS": self.tls_port, "MUTUAL": self.mutual_port}
        with self._configuration.open("a") as file:
            file.write(f"advertised.listeners={','.join(f'{name}://{self.address}:{at}' for name, at in told.items())}\n")

    def start(self) -> Self:
        """Returns when it answers. Raises RuntimeError with its log if it does not."""
        options = [
            "-Xmx512m",
            *self._options,
            f"-Dlog4j2.configurationFile={self.directory}/log4j2.xml",
        ]
        with (self.directory / "log").open("ab") as log:
            command = jars.java("kafka.Kafka", str(self._configuration), lib=self._lib, options=options)
            self._process = ChildProcess(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + STARTS_WITHIN
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = (self.directory / "log").read_text()[-3000:]
                self.stop()
                raise RuntimeError(said)
            time.sleep(0.1)
        return self

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        self._end(signal.SIGKILL)

    @property
    def ended(self) -> bool:
        """By itself."""
        return self._process is not None and self._process.poll() is not None

    def stop(self) -> None:
        self._end(signal.SIGKILL)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _answers(self) -> bool:
        try:
            with socket.create_connection((self.address, self.port), timeout=1):
                pass
        except OSError:
            return False
        try:
            admin = self.admin()
            return bool(admin.list_topics(timeout=2).brokers)
        except Exception:
            return False

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
