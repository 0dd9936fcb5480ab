"""Exceptions of a signal's handler, at every step of some modules: what Python can be interrupted in, one by one.

Python runs handlers of signals in the main thread, between two instructions. Two pairs of them it does not part: taking a lock by
`with` and the block's begin, and the block's end and letting go.
"""

import dis
import sys
from collections.abc import Callable
from functools import cache
from types import CodeType, FrameType
from typing import Any


class Interrupted(BaseException):
    """As SystemExit of a handler."""


@cache
def _uninterrupted(code: CodeType) -> frozenset[int]:
    """Offsets of the instructions that leave a `with`: three None, and the call of __exit__; of what does nothing; of what makes
    a frame; and of a call whose keywords are known, which the next call would take."""
    instructions = list(dis.get_instructions(code))
    begin = next(nth for nth, instruction in enumerate(instructions) if instruction.opname == "RESUME")
    found = {instruction.offset for instruction in instructions[:begin]}
    for nth in range(len(instructions) - 3):
        if instructions[nth].opname == "NOP":  # does nothing, and may be neither in the block nor out of it
            found.add(instructions[nth].offset)
        if instructions[nth].opname == "KW_NAMES":
            found.update(each.offset for each in instructions[nth + 1 : nth + 3])
        three = instructions[nth : nth + 3]
        if all(each.opname == "LOAD_CONST" and each.argval is None for each in three):
            call = next(at for at in range(nth + 3, len(instructions)) if instructions[at].opname == "CALL")
            found.update(each.offset for each in instructions[nth : call + 1])
            if nth and instructions[nth - 1].opname == "SWAP":  # of `return` within the block
                found.add(instructions[nth - 1].offset)
    return frozenset(found)


class Steps:
    """Watches the steps of a thread in some files, and interrupts it before the given ones."""

    def __init__(self, files: tuple[str, ...], at: set[int]) -> None:
        """`files`: what their paths end with. `at`: numbers of the steps before which it is interrupted."""
        self.count = 0
        self.where: list[tuple[CodeType, int]] = []
        """The step's place, of each."""
        self.interrupted: list[str] = []
        self._files, self._at = files, at

    def run(self, do: Callable[[], object]) -> None:
        before = sys.gettrace()
        sys.settrace(self._called)
        try:
            do()
        finally:
            sys.settrace(before)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_name == "__del__" or not frame.f_code.co_filename.endswith(self._files):  # there it would be lost
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._step

    def _step(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode" and frame.f_lasti not in _uninterrupted(frame.f_code):
            number, self.count = self.count, self.count + 1
            if not self._at:
                self.where.append((frame.f_code, frame.f_lasti))
            elif number in self._at:
                self.interrupted.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}+{frame.f_lasti}")
                # Python takes the trace back where it raises: the next `run` sets it again.
                raise Interrupted
        return self._step
