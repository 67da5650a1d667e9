"""Every error a user or another room can meet, as one tree.

LegatoError
├── InvalidRequest        yours: the request must change
│   ├── UnknownOption         an option nobody knows, with the nearest known one
│   └── ContextOverflow       the prompt can never fit
├── NotAdmitted           yours: the server does not let this key or page in
├── InvalidModel          yours: the model is missing, broken or not supported
├── InvalidSetting        yours: the engine's configuration cannot work
├── Overloaded            load: try again after retry_after_s
├── DeadlineExceeded      load: the request's own deadline passed
├── EngineFailed          ours: the engine died, with its cause
│   └── EngineStalled         its device hangs; the same may be tried later
└── Closed                gone
    ├── ConnectionLost        the server cannot be reached any more
    ├── EngineClosed          the engine is not running (not yet, or no longer)
    ├── MailboxClosed         my end: I closed this mailbox
    └── MailboxBroken         their end: the other side is gone

MailboxFull and MailboxEmpty stand beside them: they are answers of ``put_nowait`` and
``get_nowait``, not faults. So do MessageTooLarge and MailboxMisused, which name what
the program around a mailbox does wrong.

Errors carry fields, ``str()`` builds the text, and the text says what to change.
``Failure`` is the form in which an error travels inside a message.
"""

from collections.abc import Iterable
from difflib import get_close_matches

import msgspec

# Longer ones are no misspelt names; to compare one of megabytes takes seconds.
MAX_NAME = 256


def nearest(name: str, known: Iterable[str], cutoff: float = 0.5) -> str:
    """Of known names the one that was probably meant, or "".

    Args:
        name: What was written.
        known: What there is.
        cutoff: How alike they must be, 0 to 1.
    """
    if len(name) > MAX_NAME:
        return ""
    return next(iter(get_close_matches(name, list(known), n=1, cutoff=cutoff)), "")


class LegatoError(Exception):
    """The root of everything Legato raises on purpose."""

    code = "legato_error"


class InvalidRequest(LegatoError):
    """The request cannot be served as it is written.

    Args:
        message: What is wrong and what to change.
        field: The request's field at fault, as the client wrote it, if there is one.
    """

    code = "invalid_request"

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class UnknownOption(InvalidRequest):
    """An option that nobody knows, refused by name.

    Args:
        option: Its name.
        known: Options there are; the nearest is named.
        instead: What serves its purpose here, if anything does.
    """

    code = "unknown_option"

    def __init__(self, option: str, known: Iterable[str], instead: str = "") -> None:
        self.option = option
        near = nearest(option, known)
        hint = f"; did you mean {near!r}?" if near else ""
        hint = f"; {instead}" if instead else hint
        super().__init__(f"unknown option {option!r}{hint}", field=option)

    def __str__(self) -> str:
        return self.message


class ContextOverflow(InvalidRequest):
    """A prompt that can never fit, with the numbers."""

    code = "context_length_exceeded"

    def __init__(
        self,
        prompt_tokens: int,
        limit_tokens: int,
        why: str,
        *,
        at_least: bool = False,
    ) -> None:
        self.prompt_tokens = prompt_tokens
        self.limit_tokens = limit_tokens
        count = f"at least {prompt_tokens}" if at_least else str(prompt_tokens)
        super().__init__(
            f"the prompt has {count} tokens, but {why} leaves room for "
            f"{limit_tokens}; shorten the prompt",
            field="prompt",
        )


class NotAdmitted(LegatoError):
    """The server does not let this client in: its key or its origin."""

    code = "not_admitted"


class InvalidModel(LegatoError):
    """The model is missing, broken or of a kind that is not supported."""

    code = "invalid_model"


class InvalidSetting(LegatoError):
    """A setting of the engine that cannot work, with the numbers."""

    code = "invalid_setting"


class Overloaded(LegatoError):
    """Too much work is waiting; the request was refused before any work on it."""

    code = "overloaded"

    def __init__(self, what: str, *, retry_after_s: float) -> None:
        self.what = what
        self.retry_after_s = retry_after_s
        super().__init__(f"{what}; try again in {retry_after_s:.1f} s")


class DeadlineExceeded(LegatoError):
    """The request's own deadline passed before it was done."""

    code = "deadline_exceeded"


class EngineFailed(LegatoError):
    """The engine died and was not restarted; ``__cause__`` or the text says why."""

    code = "engine_failed"


class EngineStalled(EngineFailed):
    """The device, or the core around it, hangs; it may go on after all."""

    code = "engine_stalled"


class Closed(LegatoError):
    """Something is no longer there."""

    code = "closed"


class ConnectionLost(Closed):
    """The server cannot be reached, and what it was doing for us is lost."""

    code = "connection_lost"


class EngineClosed(Closed):
    """The engine is not running: it was not started yet, or it is shutting down."""

    code = "engine_closed"


class MailboxClosed(Closed):
    """My end: this mailbox was closed by the side that now uses it."""

    code = "mailbox_closed"


class MailboxBroken(Closed):
    """Their end: the other side of this mailbox is gone."""

    code = "mailbox_broken"


class MailboxFull(LegatoError):
    """``put_nowait`` found no room."""

    code = "mailbox_full"


class MailboxEmpty(LegatoError):
    """``get_nowait`` found nothing."""

    code = "mailbox_empty"


class MailboxMisused(LegatoError, RuntimeError):
    """A mailbox was used from a loop or thread that it does not belong to."""

    code = "mailbox_misused"


class MessageTooLarge(LegatoError):
    """A message that no frame between processes may carry, with the numbers."""

    code = "message_too_large"

    def __init__(self, mailbox: str, size_bytes: int, limit_bytes: int) -> None:
        self.mailbox = mailbox
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes
        super().__init__(
            f"a message of {size_bytes} bytes is over mailbox {mailbox!r}'s limit of "
            f"{limit_bytes}; split it, or raise max_message_bytes"
        )


class Failure(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An error inside a message.

    Args:
        code: The class's ``code``.
        message: The error's whole text.
        field: The request's field at fault, or "".
        retry_after_s: Seconds to wait, for ``overloaded``.
    """

    code: str
    message: str
    field: str = ""
    retry_after_s: float = 0.0

    @classmethod
    def of(cls, error: BaseException) -> "Failure":
        """Describe any error; one that is not ours becomes ``engine_failed``."""
        if isinstance(error, InvalidRequest):
            return cls(error.code, error.message, error.field or "")
        if isinstance(error, Overloaded):
            return cls(error.code, error.what, retry_after_s=error.retry_after_s)
        if isinstance(error, LegatoError):
            return cls(error.code, str(error))
        return cls(EngineFailed.code, f"{type(error).__name__}: {error}")

    def error(self) -> LegatoError:
        """Build the error again, on the other side of a mailbox."""
        if self.code == Overloaded.code:
            return Overloaded(self.message, retry_after_s=self.retry_after_s)
        plain = {c.code: c for c in (InvalidModel, InvalidSetting, DeadlineExceeded)}
        ended = (EngineClosed, EngineFailed, EngineStalled)
        plain |= {c.code: c for c in ended}
        if self.code in plain:
            return plain[self.code](self.message)
        if self.code == UnknownOption.code:
            unknown = UnknownOption(self.field, ())
            unknown.message = self.message
            return unknown
        error = InvalidRequest(self.message, field=self.field or None)
        error.code = self.code
        return error
