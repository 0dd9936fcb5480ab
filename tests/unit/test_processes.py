"""What tests start ends with them, also where they are killed, and Redis servers leave no folders."""

import re
import subprocess
import sys
import threading
from pathlib import Path

from tests.processes import ChildProcess
from tests.redis_server import RedisServer
from tests.waiting import until

ROOT = Path(__file__).parents[2]
SLEEPS = [sys.executable, "-c", "import time; time.sleep(3600)"]
STARTER = f"""
import time
from tests.processes import ChildProcess
from tests.redis_server import RedisServer

server = RedisServer().start()
print(ChildProcess({SLEEPS}).pid, server._process.pid, server.directory, flush=True)
time.sleep(3600)
"""


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_children_end_with_a_process_that_is_killed_and_its_folders_go_with_the_next_one() -> None:
    with subprocess.Popen([sys.executable, "-c", STARTER], cwd=ROOT, stdout=subprocess.PIPE, text=True) as starter:  # killed here
        assert starter.stdout is not None
        child, server, folder = starter.stdout.readline().split()
        assert runs(int(child)) and runs(int(server)) and Path(folder).is_dir()
        starter.kill()
    until(lambda: not runs(int(child)) and not runs(int(server)), "both have ended")
    with RedisServer() as other:
        assert not Path(folder).exists() and other.directory.is_dir()


def test_a_child_outlives_the_thread_that_started_it() -> None:
    started: list[ChildProcess[bytes]] = []
    thread = threading.Thread(target=lambda: started.append(ChildProcess(SLEEPS)))
    thread.start()
    thread.join()
    [child] = started
    assert runs(child.pid) and child.poll() is None
    child.kill()
    child.wait()


def test_all_tests_start_processes_as_child_processes() -> None:
    others = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r"\bPopen\(", line) and "# killed here" not in line
    ]
    assert others == [], "start them by tests.processes.ChildProcess"
