"""Write the reference pages that are made from the sources: ``python docs/generate_reference.py``.

The pages in ``docs/reference`` and their sources: ``command-line.md``: the help of the commands;
``json.md``: the schemas of the output; ``c.md``: headers; ``operators.md``: the operators'
contracts; ``plugin-sdk.md``: what plug-ins import. Plug-ins have a page of their commands in their
folder ``docs``. A file ``reference_pages.py`` there defines more pages (``PAGES``). A C header with
names of operators is made from the contracts, too. A test fails if a file is out of date.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from runpy import run_path

import c_reference
import click
import json_reference
import operator_reference
import sdk_reference

from tvmrt import plugin
from tvmrt.cli import app
from tvmrt.cli.option_groups import GROUPS, group_of
from tvmrt.units import BYTES, FRACTION, SECONDS

ROOT = Path(__file__).parents[1]

HEAD = """# The command line

`docs/generate_reference.py` makes this page from the help texts of `tvmrt COMMAND --help`.

Commands print text, or with `--json` one JSON object with a [schema](json.md). Progress is shown on
standard error if it is a terminal. Exit codes:

| code | meaning |
|---|---|
| 0 | done |
| 1 | the result is wrong (`tvmrt verify`, `tvmrt doctor`) |
| 2 | the request cannot be met; standard error has the reason and what to do |

Bash completes commands, options and their values after
`eval "$(_TVMRT_COMPLETE=bash_source tvmrt)"`, zsh and fish with `zsh_source` and `fish_source`.

Values with a unit have these forms; a plain time is in seconds:

| value | forms |
|---|---|
{units}

Set `TVMRT_TRACEBACK=1` to print the Python traceback of an error.

Commands of plug-ins are listed in their folders, `plugins/<name>/docs/command-line.md`. The site
has all commands on this page.
"""

PLUGIN_HEAD = """# Commands of the plug-in {name}

`docs/generate_reference.py` makes this page. On the site it is part of the page \
[The command line](../../../docs/reference/command-line.md).
"""


def _value_name(option: click.Option) -> str:
    """Return what stands for the option's value, in words that do not change between clicks."""
    if option.is_flag:
        return ""
    if isinstance(option.type, click.Choice):
        return " or ".join(option.type.choices)
    return option.metavar or option.type.name.split()[0].upper()


def _option_row(option: click.Option) -> str:
    names = [", ".join(option.opts), *option.secondary_opts]
    name = f"{' / '.join(names)} {_value_name(option)}".strip()
    text, _, table = (option.help or "").partition("\n\n\b\n")
    if option.required:
        text += " Required."
    elif option.show_default:
        text += f" Default: `{option.default}`."
    for row in table.replace("\n  ", " ").splitlines():
        key, _, meaning = row.partition(": ")
        text += f"<br>`{key}`: {meaning}"
    return f"| `{name}` | {text.strip()} |"


def _usage(name: str, command: click.Command) -> str:
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    words = [argument.metavar or argument.name.upper() for argument in arguments]
    return " ".join(["tvmrt", name, *words, "[OPTIONS]"])


def _section(name: str, command: click.Command) -> str:
    every = command.get_params(click.Context(command))
    rows, title = [], GROUPS[0]
    for option in every:
        if isinstance(option, click.Option) and not {"--help", "--help-all"} & {*option.opts}:
            if group_of(option) != title:
                title = group_of(option)
                rows.append(f"| **{title}** | |")
            rows.append(_option_row(option))
    table = ["\n".join(["| option | meaning |", "|---|---|", *rows])] if rows else []
    usage = f"```text\n{_usage(name, command)}\n```"
    paragraphs = [_wrap(part) for part in inspect.cleandoc(command.help or "").split("\n\n")]
    return "\n\n".join([f"## tvmrt {name}", usage, *paragraphs, *table])


def _wrap(paragraph: str) -> str:
    return textwrap.fill(" ".join(paragraph.split()), 100)


def _commands() -> dict[str, click.Command]:
    """Return all commands, by their names."""
    context = click.Context(app.group, info_name="tvmrt")
    commands = {}
    for name in app.group.list_commands(context):
        command = app.group.get_command(context, name)
        commands[name] = command
        if isinstance(command, click.Group):
            names = dict.fromkeys([*command.commands, *command.list_commands(context)])
            commands |= {f"{name} {sub}": command.get_command(context, sub) for sub in names}
    return commands


def _command_page(head: str, names: Iterable[str]) -> str:
    commands = _commands()
    sections = [_section(name, commands[name]) for name in names]
    return "\n\n".join([head.rstrip(), *sections]) + "\n"


def command_line() -> str:
    """Return the page of the command line: the commands that no plug-in adds."""
    added = plugin.keys("commands")
    units = "\n".join(f"| {unit.kind} | {unit.forms} |" for unit in (BYTES, SECONDS, FRACTION))
    return _command_page(
        HEAD.replace("{units}", units), (name for name in _commands() if name not in added)
    )


PAGES = {
    "c.md": c_reference.page,
    "command-line.md": command_line,
    "json.md": json_reference.page,
    "operators.md": operator_reference.page,
    "plugin-sdk.md": sdk_reference.page,
}


def plugin_pages(folder: Path) -> dict[str, Callable[[], str]]:
    """Return the generated pages of a plug-in, by file name."""
    result: dict[str, Callable[[], str]] = {}
    file = folder / "docs" / "reference_pages.py"
    if file.is_file():
        result.update(run_path(str(file)).get("PAGES", {}))
    used = {name.replace("-", "_"): each for name, each in plugin.plugins().items()}
    if folder.name in used and (commands := list(used[folder.name].commands)):
        head = PLUGIN_HEAD.format(name=folder.name)
        result["command-line.md"] = partial(_command_page, head, commands)
    return result


def pages() -> dict[str, Callable[[], str]]:
    """Return the functions that generate the pages, by path in the repository."""
    result = {f"docs/reference/{name}": make for name, make in PAGES.items()}
    for folder in sorted(ROOT.glob("plugins/*")):
        made = plugin_pages(folder)
        result |= {f"plugins/{folder.name}/docs/{name}": make for name, make in made.items()}
    return result


def main() -> None:
    """Write every page below the folder named on the command line, or where they belong."""
    top = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    for name, make in pages().items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
