"""The keyboard while a reply is being printed: what is typed must not mix with it."""

import sys
from collections.abc import Generator
from contextlib import contextmanager

try:
    import termios
except ImportError:  # not a Unix system: what is typed shows, and nothing is lost
    termios = None


@contextmanager
def hushed() -> Generator[None]:
    """Show nothing that is typed meanwhile; drop it afterwards. Ctrl-C still works."""
    if termios is None or not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    quiet = list(before)
    quiet[3] &= ~termios.ECHO
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSAFLUSH, before)
