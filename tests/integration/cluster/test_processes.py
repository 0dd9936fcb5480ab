"""When a process counts as ended: not before it has let go of everything that it held."""

import socket
import sys
from pathlib import Path

from cluster.ports import free_ports
from cluster.processes import Registry
from cluster.waiting import wait_until
from tests.waiting import PATIENCE

_FIRST_THREAD_ENDS = """
import ctypes, socket, sys, threading
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
threading.Thread(target=threading.Event().wait).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_whose_first_thread_has_ended_holds_its_port_until_the_last_one_has(tmp_path: Path) -> None:
    port = next(free_ports("127.0.0.1"))
    registry = Registry(tmp_path)
    process = registry.start("half", [sys.executable, "-c", _FIRST_THREAD_ENDS, str(port)])
    try:
        stat = Path(f"/proc/{process.pid}/stat")
        assert wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z", PATIENCE)
        assert process.alive()
    finally:
        registry.stop("half", grace=0)
    assert not process.alive()
    socket.create_server(("127.0.0.1", port)).close()
