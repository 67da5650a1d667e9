"""``legato chat``: a conversation in the terminal."""

import asyncio
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import click

from ..protocol.errors import LegatoError
from .garbage import uncollected
from .kernels import compile_ahead
from .keyboard import hushed
from .options import ENGINE_OPTIONS, SAMPLING_OPTIONS, split_sampling, with_options

# A small model may never end by itself; whoever wants more says --max-tokens.
REPLY_TOKENS = 1024


@click.command()
@with_options(ENGINE_OPTIONS)
@with_options(SAMPLING_OPTIONS)
@click.option("-p", "--prompt", help="Ask this, print the answer, and leave.")
@click.option("-s", "--system", default="", help="The system prompt.")
def chat(prompt: str | None, system: str, **options: Any) -> None:
    """Talk with the model; Ctrl-C stops a reply or takes back a line, Ctrl-D leaves.

    With -p, or with text piped in, it answers once and exits. Where no sampling option
    is given, the model's recommended ones hold, and replies end after 1,024 tokens.

    \b
    Examples:
      legato chat
      legato chat -p "Name three rivers." --temperature 0
      git diff | legato chat -s "Review this change in two sentences."
    """
    compile_ahead(options)
    with uncollected():
        from ..actors.core import new_loop
        from .conversation import Conversation
        from .loading import LoadingBar, make_engine

    piped = not sys.stdin.isatty()
    if prompt is None and piped:
        prompt = sys.stdin.read()
    elif prompt is not None and piped:
        prompt = f"{prompt}\n\n{sys.stdin.read()}".rstrip()
    if prompt is not None and not prompt.strip():
        raise click.UsageError("nothing to ask: give -p TEXT, or pipe text in")
    sampling = {"max_tokens": REPLY_TOKENS} | split_sampling(options)
    # One loop, entered for each reply: between replies the terminal belongs to
    # ``input``, with the line editing and the Ctrl-C people know.
    with asyncio.Runner(loop_factory=new_loop) as runner:
        with uncollected(), LoadingBar(options["model"]) as bar:
            engine = make_engine(options, bar)
            runner.run(engine.__aenter__())
        try:
            conversation = Conversation(engine, engine.params(**sampling), system)
            if prompt is not None:
                runner.run(conversation.reply(prompt))
            else:
                _talk(runner, conversation)
        finally:
            runner.run(engine.__aexit__(None, None, None))


def _talk(runner: asyncio.Runner, conversation: Any) -> None:
    typed = _enable_line_editing()
    click.echo(f"{conversation.greeting}  /help lists commands; Ctrl-D leaves.")
    told = False
    while True:
        try:
            line = input("\n> ").strip()
            told = False
            if line in ("/quit", "/exit"):
                return
            _take(runner, conversation, line)
        except EOFError:
            click.echo()
            return
        except KeyboardInterrupt:
            # Wherever it strikes: at the prompt, in a command, or just between. Where
            # a line was begun it takes that back, as in a shell.
            if told and not typed():
                click.echo()
                raise
            told = True
            click.echo("\n(Ctrl-C again, Ctrl-D or /quit leaves)", nl=False)


def _take(runner: asyncio.Runner, conversation: Any, line: str) -> None:
    if line.startswith("/"):
        if line == "/stats":
            runner.run(conversation.settle())
        click.echo(conversation.command(line))
    elif line:
        _reply(runner, conversation, line)


def _reply(runner: asyncio.Runner, conversation: Any, line: str) -> None:
    try:
        with hushed():
            runner.run(conversation.reply(line))
    except KeyboardInterrupt:
        click.echo(" (stopped)")
    except LegatoError as error:
        click.echo(f"legato: {error}", err=True)


def _enable_line_editing() -> Callable[[], str]:
    """Give ``input`` a history; return what tells the line as it was last edited."""
    try:
        # Its import is what gives input() a history.
        return import_module("readline").get_line_buffer
    except ImportError:
        return str  # not on every platform; input() works without
