"""What stands between a client and its server in tests: a port of this machine whose connections a function is given."""

import socket
import threading
from collections.abc import Callable


class Listener:
    """Gives each connection to `taken`, one after the other, until it is closed. `taken` must not block: it starts threads."""

    def __init__(self, taken: Callable[[socket.socket], None]) -> None:
        self._taken = taken
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.place = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.url = f"redis://{self.place}/0"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._taken(connection)

    def close(self) -> None:
        self._socket.close()
