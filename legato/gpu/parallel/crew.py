"""The other ranks, as the leading one knows them: processes that it starts and ends."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from ...protocol.errors import EngineFailed, Failure, InvalidSetting
from ...protocol.steps import StepPlan
from ..settings import RunnerSettings
from .line import Line
from .words import WORDS, RankOrder, RankReady, without_sampling

# Importing torch on a cold disk.
START_S = 300.0
LEAVE_S = 10.0
# An exchange breaks a little before the death that broke it is known.
BLAME_S = 2.0
RANK = ("-m", f"{__package__}.rank")


class Member:
    """One other rank.

    Args:
        order: What it is to become.
        on_end: Told, in a thread of its own, when it has ended, and why.
    """

    def __init__(
        self, order: RankOrder, on_end: Callable[["Member", Failure], None]
    ) -> None:
        self.rank = order.rank
        self.settled = threading.Event()
        self._on_end = on_end
        ours, theirs = socket.socketpair()
        self.line = Line(ours)
        try:
            self._child = _spawn(theirs)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._thread = threading.Thread(
            target=self._watch, name=f"legato-rank-{order.rank}", daemon=True
        )
        self._thread.start()
        try:
            self.line.send(order)
        except OSError:
            pass  # it died at once; the thread will say so

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._child.pid

    def close(self) -> None:
        """End it and wait until it has left."""
        self.line.hang_up()
        self._thread.join()
        self.line.close()

    def _watch(self) -> None:
        failure: Failure | None = None
        try:
            while True:
                word = self.line.receive(WORDS)
                if isinstance(word, RankReady):
                    self.settled.set()
                else:
                    failure = word.failure
        except (EOFError, OSError, msgspec.MsgspecError):
            self._reap()
        self._on_end(self, failure or Failure.of(EngineFailed(self._obituary())))
        self.settled.set()

    def _reap(self) -> None:
        try:
            self._child.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def _obituary(self) -> str:
        code = self._child.returncode
        how = f"left with exit code {code}"
        return (
            f"rank {self.rank} {f'was killed by signal {-code}' if code < 0 else how}"
        )


class Crew:
    """All ranks but the leading one.

    Args:
        model: As the user called it.
        settings: For their runners; ``tensor_parallel`` says how many.

    Raises:
        InvalidSetting: This platform cannot hand sockets to a child.
    """

    def __init__(self, model: str, settings: RunnerSettings) -> None:
        if sys.platform == "win32":
            raise InvalidSetting("tensor_parallel needs a Unix system; use 1")
        self._failure: Failure | None = None
        self._failed = threading.Event()
        self._closing = False
        self.on_failure: Callable[[], None] = lambda: None
        self.members: list[Member] = []
        # Readable by this user alone.
        self.folder = Path(tempfile.mkdtemp(prefix="legato-"))
        try:
            for rank in range(1, settings.tensor_parallel):
                order = RankOrder(
                    model=model, settings=settings, rank=rank, folder=str(self.folder)
                )
                self.members.append(Member(order, self._note_end))
        except BaseException:
            self.close()
            raise

    def wait_ready(self) -> None:
        """Wait until all are about to meet.

        Raises:
            LegatoError: One ended, or does not come; with the reason.
        """
        for member in self.members:
            if not member.settled.wait(START_S):
                raise EngineFailed(f"rank {member.rank} did not start in {START_S} s")
        if self._failure is not None:
            raise self._failure.error()

    def send(self, plan: StepPlan) -> None:
        """Give every rank its plan.

        Raises:
            LegatoError: One has ended; with the reason.
        """
        body = msgspec.msgpack.encode(without_sampling(plan))
        try:
            for member in self.members:
                member.line.send_bytes(body)
        except OSError as error:
            raise self.blame(error) from error

    def blame(self, error: Exception) -> Exception:
        """Find the end of a rank that explains an error, or return the error itself."""
        if self._failed.wait(BLAME_S) and self._failure is not None:
            return self._failure.error()
        return error

    def close(self) -> None:
        """End every rank and wait until they have left. May be called again."""
        self._closing = True
        for member in self.members:
            member.line.hang_up()
        while self.members:
            self.members.pop().close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _note_end(self, member: Member, failure: Failure) -> None:
        if self._closing or self._failed.is_set():
            return
        self._failure = failure
        self._failed.set()
        self.on_failure()


def _spawn(end: socket.socket) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, *RANK, str(end.fileno())],
        stdin=subprocess.DEVNULL,
        pass_fds=(end.fileno(),),
        env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
