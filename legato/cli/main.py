"""The command line's entrance: the group of commands, and how errors leave it."""

import sys
from typing import Any

import click

from ..protocol.errors import (
    InvalidModel,
    InvalidRequest,
    InvalidSetting,
    LegatoError,
)
from ..version import __version__
from .bench import bench
from .chat import chat
from .doctor import doctor
from .generate import generate
from .models import models
from .serve import serve
from .trace import trace

EXIT_FAILED = 1
EXIT_YOURS = 2


class Commands(click.Group):
    """A group whose errors are one line each: 2 for the user's, 1 for ours."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except (InvalidModel, InvalidSetting, InvalidRequest) as error:
            click.echo(f"legato: {error}", err=True)
            sys.exit(EXIT_YOURS)
        except LegatoError as error:
            click.echo(f"legato: {error}", err=True)
            sys.exit(EXIT_FAILED)
        except KeyboardInterrupt:
            click.echo("legato: interrupted", err=True)
            sys.exit(130)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="legato")
def main() -> None:
    """Stream tokens from language models, with no silence between them.

    \b
    Examples:
      legato chat                          talk with the embedded model
      legato chat -p "Name three rivers."  ask once
      legato serve --port 8000             serve OpenAI's protocols
    """


for command in (chat, generate, serve, bench, trace, models, doctor):
    main.add_command(command)
