"""A connection of redis-py's to a server in memory."""

from collections import deque
from typing import Any

import redis


class UnreadAnswers(redis.Connection):
    """Unread answers stay there until the connection is closed. `server` answers a command by `answer(words)`."""

    def __init__(self, server: Any, **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call]
        self._server = server
        self._answers: deque[Any] = deque()

    def connect(self) -> None:
        pass

    def send_command(self, *words: Any, **_: Any) -> None:
        self.send_packed_command(self.pack_commands([words]))

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        for words in command:
            self._answers.append(self._server.answer(words))

    def pack_commands(self, commands: Any) -> Any:
        return [[word if isinstance(word, bytes) else str(word).encode() for word in words] for words in commands]

    def read_response(self, *_: Any, **__: Any) -> Any:
        answer = self._answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def can_read(self, timeout: float = 0) -> bool:
        """They are on their way for longer than the library looks for them."""
        return False

    def disconnect(self, *_: Any) -> None:
        self._answers.clear()

    def __del__(self) -> None:
        """There is no socket to close."""
