"""``legato doctor``: what this machine has, what would run, and what more brings."""

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ..gpu.machine import Survey

EXIT_NOTHING_RUNS = 1
MARKS = {"ok": "+", "missing": "-", "broken": "!"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document, for scripts.")
def doctor(as_json: bool) -> None:
    """Say what this machine has, what would be used, and what would bring more.

    Each part is tried by itself; one that is broken is a line marked with "!". The exit
    status is 0, or 1 if no model can run at all.

    \b
    Examples:
      legato doctor
      legato doctor --json | jq '.outlooks[0].dtype'
    """
    import msgspec

    from ..gpu.machine import survey

    found = survey()
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
    else:
        click.echo("\n".join(describe(found)))
    if not found.can_run:
        sys.exit(EXIT_NOTHING_RUNS)


def describe(found: "Survey") -> list[str]:
    """Put a survey into lines."""
    lines = [f"Legato {found.version}, Python {found.python}, {found.system}", ""]
    for finding in found.findings:
        lines.append(f"{MARKS[finding.state]} {finding.name:13} {finding.text}")
    lines += ["", "What would run, if nothing else is asked for:"]
    for outlook in found.outlooks:
        native = ", native kernels" if outlook.native else ""
        lines.append(
            f"  {outlook.device}: dtype {outlook.dtype}, attention "
            f"{outlook.attention}{native} ({outlook.name})"
        )
        lines += [f"    {reason}" for reason in outlook.why]
    if found.outlooks:
        lines.append(f"  device auto is {found.outlooks[0].device}")
    else:
        lines.append("  no model, only --model fake")
    if found.changes:
        lines += ["", "For more:"]
    for change in found.changes:
        lines.append(f"  {change.why}")
        if change.command:
            lines.append(f"    {change.command}")
    return lines
