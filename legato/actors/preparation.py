"""Admissions that wait until their grammar is compiled, beside the scheduler's loop.

Compiling takes a millisecond or a second, and the vocabulary half a second the first
time: neither the loop nor the device waits for it, only the request itself. Lives in
the scheduler; its one thread starts with the first grammar.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import msgspec

from ..gpu.grammar import Grammars
from ..mailbox import MailboxBroken, MailboxClosed
from ..protocol.amend import Amend
from ..protocol.errors import Failure
from ..protocol.grammar import Grammar
from ..protocol.requests import Admit, Credit, Ended, FinishReason, StepOutput, Usage


class Prepared(msgspec.Struct, frozen=True, gc=False):
    """A request's grammar is compiled, or cannot be.

    Args:
        request: Whose.
        failure: Why it cannot be.
    """

    request: int
    failure: Failure | None = None


class PreparedSink(Protocol):
    """Where news of compiled grammars goes: an address that threads can use."""

    def put_blocking(self, item: Prepared) -> None:
        """Put it, waiting for room."""
        ...


@dataclass
class _Held:
    admit: Admit
    granted: bool = True


class Preparation:
    """The waiting room of requests with a grammar that is new.

    Args:
        grammars: Compiles them.
        done: Told of each that is compiled, from the thread.
    """

    def __init__(self, grammars: Grammars, done: PreparedSink) -> None:
        self._grammars = grammars
        self._done = done
        self._held: dict[int, _Held] = {}
        self._thread: ThreadPoolExecutor | None = None

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Admit]:
        return iter([held.admit for held in self._held.values()])

    def hold(self, admit: Admit) -> bool:
        """Take a request in if its grammar must be compiled; say whether it must."""
        grammar = admit.sampling.grammar
        if grammar is None or self._grammars.has(grammar):
            return False
        self._held[admit.request] = _Held(admit)
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "legato-grammar")
        self._thread.submit(self._compile, admit.request, grammar)
        return True

    def credit(self, order: Credit) -> bool:
        """Note whether a request that waits here may run; say whether it does wait."""
        held = self._held.get(order.request)
        if held is not None:
            held.granted = order.granted
        return held is not None

    def amend(self, order: Amend) -> bool:
        """Change a request that waits here; say whether it does."""
        held = self._held.get(order.request)
        if held is not None:
            held.admit = order.applied(held.admit)
        return held is not None

    def release(self, request: int) -> tuple[Admit, bool] | None:
        """Let a request go; None if it left before.

        Returns:
            The request, and whether it may run.
        """
        held = self._held.pop(request, None)
        return None if held is None else (held.admit, held.granted)

    def close(self) -> None:
        """Wait until the thread has left; what it has not begun is dropped."""
        self._held.clear()
        if self._thread is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)

    def _compile(self, request: int, grammar: Grammar) -> None:
        failure = None
        try:
            self._grammars.compile(grammar)
        except Exception as error:
            failure = Failure.of(error)
        try:
            self._done.put_blocking(Prepared(request, failure))
        except (MailboxBroken, MailboxClosed):
            pass  # the scheduler has left, and the request with it


def unstarted(
    request: Admit, reason: FinishReason, failure: Failure | None = None
) -> StepOutput:
    """The end of a request that the planner never had."""
    usage = Usage(len(request.prompt), len(request.emitted))
    return StepOutput(ended=(Ended(request.request, reason, usage, failure),))
