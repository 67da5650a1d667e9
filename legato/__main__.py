"""``python -m legato``: the command line."""

from .cli import main

main()
