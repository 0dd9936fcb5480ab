"""Executors read from any kind of server, and through a failover."""

import ipaddress
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from pyspark.sql import SparkSession

from cluster.ports import free_ports
from tests.clustered_redis import clustered_redis
from tests.integration.spark.slow_rows import read_slowly
from tests.integration.spark.stand_in import Kept, StandIn, drained
from tests.redis_server import RedisServer
from tests.self_signed import self_signed
from tests.watched_redis import watched_redis


def test_executors_show_a_tls_server_their_certificate(spark: SparkSession, tmp_path: Path) -> None:
    certificate = self_signed(tmp_path)
    files = f"ssl_ca_certs={certificate}&ssl_certfile={certificate}&ssl_keyfile={certificate}"
    with RedisServer() as server:
        port = with_tls(server, certificate, certificate)
        reads_all(spark, f"rediss://127.0.0.1:{port}/0?{files}&ssl_check_hostname=false", tmp_path)


def test_a_pkcs1_key_works_and_the_hostname_is_checked(spark: SparkSession, tmp_path: Path) -> None:
    certificate, key = of_this_host(tmp_path)
    files = f"ssl_ca_certs={certificate}&ssl_certfile={certificate}&ssl_keyfile={key}"
    with RedisServer() as server:
        port = with_tls(server, certificate, key)
        reads_all(spark, f"rediss://127.0.0.1:{port}/0?{files}", tmp_path)


def test_a_user_with_the_rights_of_the_guide_reads(spark: SparkSession, tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "guides" / "redis-users-and-tls.md").read_text()
    command = page.partition("user orders-spark")[2].partition("\nEOF")[0].replace("\\\n", " ")
    rights = command.replace(">$(cat spark.password)", ">s3cret/word").replace("{shop/orders}", "{default/*").split()
    with RedisServer() as server, server.client() as raw:
        raw.execute_command("ACL", "SETUSER", "reader", *rights)

        def as_reader(source: StandIn) -> None:
            source.server |= {"user": "reader", "password": "s3cret/word"}

        reads_all(spark, server.url, tmp_path, as_reader)


def test_a_rejected_password_fails_quickly(spark: SparkSession) -> None:
    with RedisServer(password="right") as server, StandIn(spark, server.url) as source:
        source.producer.send("a", "x")
        source.server |= {"password": "wrong"}
        with pytest.raises(Exception, match="Redis refuses: WRONGPASS"):
            source.table().count()


def test_a_replica_takes_over_in_the_middle_of_a_read(spark: SparkSession, tmp_path: Path) -> None:
    with watched_redis() as watched:
        reads_on(spark, watched.url(), tmp_path, lambda _: watched.fail_over(crash=True))


def test_a_master_of_a_cluster_dies_in_the_middle_of_a_read(spark: SparkSession, tmp_path: Path) -> None:
    with clustered_redis() as clustered:
        reads_on(spark, clustered.url(), tmp_path, lambda source: clustered.fail_over(source.entries_of(0)))


def reads_all(spark: SparkSession, url: str, folder: Path, arrange: Callable[[StandIn], object] = lambda _: None) -> None:
    with StandIn(spark, url) as source:
        sent = source.send(2000)
        arrange(source)
        assert source.table().count() == 2000
        kept = Kept()
        drained(source.stream(), kept, folder / "checkpoint")
        assert kept.values() == sent


def reads_on(spark: SparkSession, url: str, folder: Path, trouble: Callable[[StandIn], object]) -> None:
    """All rows are read, each once, although this fault happens in the middle."""
    with StandIn(spark, url) as source:
        sent = source.send(40_000)
        query, read = read_slowly(source, folder)
        trouble(source)
        (folder / "go").touch()
        query.awaitTermination()
        assert read == [sent]


def with_tls(server: RedisServer, certificate: Path, key: Path) -> int:
    """The server's port."""
    port = next(free_ports("127.0.0.1"))
    files = {"tls-cert-file": certificate, "tls-key-file": key, "tls-ca-cert-file": certificate}
    with server.client() as raw:
        for name, value in {**files, "tls-auth-clients": "yes", "tls-port": port}.items():
            raw.config_set(name, str(value))
    return port


def of_this_host(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1, and its key as PKCS #1."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "redis")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 2, now - timedelta(days=1), now + timedelta(days=1))
    host = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = builder.add_extension(host, critical=False).sign(key, hashes.SHA256())
    encoding = serialization.Encoding.PEM
    files = folder / "redis.pem", folder / "redis.key"
    files[0].write_bytes(certificate.public_bytes(encoding))
    form = serialization.PrivateFormat.TraditionalOpenSSL
    files[1].write_bytes(key.private_bytes(encoding, form, serialization.NoEncryption()))
    return files
