"""The command ``tvmrt greet``."""

import click


@click.command("greet")
@click.option("--name", default="world", help="Whom to greet.")
def command(name: str) -> None:
    """Print a greeting."""
    click.echo(f"hello, {name}")
