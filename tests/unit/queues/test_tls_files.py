"""The TLS files that a URL may name; no file can block other queues."""

import os
import threading
from pathlib import Path

import pytest

from baton.model.ids import Epoch
from baton.queues.protocol import Claimant, QueueUnreachable
from baton.queues.redis import RedisQueue, RedisReader, url_files
from baton.queues.redis.url_files import LARGEST, TlsFileError, TlsFiles
from tests.self_signed import self_signed
from tests.waiting import PATIENCE


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The operator's folder: two Secrets as the kubelet mounts them, for shop and bank, and some invalid files."""
    folder = tmp_path / "tls"
    for namespace in ("shop", "bank"):
        mounted = folder / namespace / "..2026"
        mounted.mkdir(parents=True)
        self_signed(mounted)
        (folder / namespace / "..data").symlink_to("..2026")
        (folder / namespace / "tls.pem").symlink_to("..data/server.pem")
    self_signed(folder).rename(folder / "ca.pem")
    self_signed(tmp_path).rename(tmp_path / "outside.pem")
    shop = folder / "shop"
    (shop / "away.pem").symlink_to(tmp_path / "outside.pem")
    (shop / "others.pem").symlink_to(folder / "bank" / "tls.pem")
    (shop / "empty.pem").touch()
    (shop / "large.pem").write_bytes(b"x" * (LARGEST + 1))
    (shop / "device.pem").symlink_to("/dev/zero")
    os.mkfifo(shop / "pipe.pem")
    return folder


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("ssl_ca_certs", "shop/tls.pem"),
        ("ssl_ca_certs", "ca.pem"),
        ("ssl_ca_path", "shop"),
        ("ssl_ca_path", ""),
        ("ssl_certfile", "shop/tls.pem"),
        ("ssl_keyfile", "shop/..2026/server.pem"),
    ],
)
def test_the_operator_reads_the_namespaces_files_and_shared_cas(folder: Path, option: str, name: str) -> None:
    TlsFiles(folder, "shop").check({option: str(folder / name)})


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("ssl_ca_certs", "bank/tls.pem"),
        ("ssl_ca_certs", "shop/../bank/tls.pem"),
        ("ssl_ca_certs", "../outside.pem"),
        ("ssl_ca_certs", "/etc/passwd"),
        ("ssl_ca_certs", "/dev/stderr"),
        ("ssl_ca_certs", "/proc/self/fd/2"),
        ("ssl_ca_certs", "bank"),
        ("ssl_ca_certs", "shop"),
        ("ssl_ca_certs", "shop/away.pem"),
        ("ssl_ca_certs", "shop/others.pem"),
        ("ssl_ca_certs", "shop/empty.pem"),
        ("ssl_ca_certs", "shop/large.pem"),
        ("ssl_ca_certs", "shop/device.pem"),
        ("ssl_ca_certs", "shop/pipe.pem"),
        ("ssl_ca_path", "bank"),
        ("ssl_ca_path", "/dev/fd"),
        ("ssl_ca_path", "shop/tls.pem"),
        ("ssl_certfile", "bank/tls.pem"),
        ("ssl_certfile", "ca.pem"),
        ("ssl_keyfile", "bank/tls.pem"),
        ("ssl_keyfile", "shop/pipe.pem"),
    ],
)
def test_every_other_file_is_refused_like_an_absent_one(folder: Path, option: str, name: str) -> None:
    ours = TlsFiles(folder, "shop")
    assert refusal(ours, option, folder / name) == refusal(ours, option, folder / "shop" / "absent.pem")


def test_a_refusal_names_the_option_and_the_cure(folder: Path) -> None:
    said = refusal(TlsFiles(folder, "shop"), "ssl_ca_certs", Path("/dev/stderr"))
    assert "option ssl_ca_certs, which names no file that the operator may read for namespace shop: mount it in the" in said
    assert f"below {folder}/shop (or {folder}, for all namespaces), by the chart's values extraVolumes" in said
    assert "as ssl_ca_data" in said
    assert "ssl_ca_data" not in refusal(TlsFiles(folder, "shop"), "ssl_keyfile", Path("/dev/stderr"))


def test_a_consumer_reads_any_regular_file(folder: Path) -> None:
    TlsFiles().check({"ssl_ca_certs": str(folder / "bank/tls.pem"), "ssl_certfile": str(folder.parent / "outside.pem")})
    for name in ("shop/pipe.pem", "shop/device.pem", "shop/absent.pem", "shop/large.pem", "/proc/self/environ"):
        assert "option ssl_certfile, which names no file that this process can read" in refusal(
            TlsFiles(), "ssl_certfile", folder / name
        )


@pytest.mark.parametrize("option", ["ssl_ca_certs", "ssl_certfile"])
@pytest.mark.parametrize("name", ["shop/pipe.pem", "/dev/zero", "bank/tls.pem"])
async def test_a_queue_reports_a_refused_file(folder: Path, option: str, name: str) -> None:
    queue = RedisQueue(
        f"rediss://127.0.0.1:1/0?{option}={folder / name}", "shop/orders", Claimant("shop/orders", "uid"), tls_folder=folder
    )
    with pytest.raises(
        QueueUnreachable, match=f"^The queue's URL has the option {option}, which names no file that the operator"
    ):
        await queue.check()
    await queue.close()


def test_a_reader_reports_a_refused_pipe(folder: Path) -> None:
    url = f"rediss://127.0.0.1:1/0?ssl_ca_certs={folder}/shop/pipe.pem"
    with RedisReader(url, "shop/orders", "a") as reader, pytest.raises(QueueUnreachable, match="that this process can read"):
        reader.read(0, Epoch(1))


async def test_a_hanging_file_blocks_neither_the_loop_nor_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(url_files, "READ_WITHIN", 0.1)
    answered, threads = threading.Event(), threading.active_count()
    try:
        for _ in range(20):
            with pytest.raises(TlsFileError, match="could not be read within"):
                await url_files.on_own_thread(lambda: answered.wait(PATIENCE))
        assert threading.active_count() <= threads + 5, "who waits for a turn goes, too"
    finally:
        answered.set()
    monkeypatch.setattr(url_files, "READ_WITHIN", PATIENCE)
    read: list[str] = []
    await url_files.on_own_thread(lambda: read.append(threading.current_thread().name))
    assert read == ["tls-files"]
    with pytest.raises(TlsFileError, match="which names no"):
        await url_files.on_own_thread(lambda: TlsFiles().check({"ssl_ca_certs": "/absent"}))


def refusal(files: TlsFiles, option: str, path: Path) -> str:
    with pytest.raises(TlsFileError) as refused:
        files.check({option: str(path)})
    return str(refused.value)
