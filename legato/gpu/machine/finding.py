"""What a look at the machine says: as a line for people, as facts for programs."""

from typing import Any, Literal

import msgspec


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the machine.

    Args:
        name: What was looked at.
        state: ``ok``; ``missing``: it is not there; ``broken``: it is, but of no use,
            or looking at it failed.
        text: One line for a person.
        facts: The same for programs; empty where looking failed.
    """

    name: str
    state: Literal["ok", "missing", "broken"]
    text: str
    facts: dict[str, Any] = {}


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """What would run on a device if nothing else is asked for.

    Args:
        device: ``cpu`` or ``cuda``.
        name: Of the processor or card.
        dtype: What ``auto`` comes to.
        attention: What ``auto`` comes to.
        native: Whether whole steps run in kernels of Legato's own.
        why: Reasons, a line each.
    """

    device: str
    name: str
    dtype: str
    attention: str
    native: bool
    why: tuple[str, ...] = ()


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Something to do for more.

    Args:
        why: What it would bring.
        command: Exactly what to run, or "" where no command does it.
    """

    why: str
    command: str = ""
