"""Reference pages that are made from the sources, for the site (``build_site.py``).

``python docs/generate_reference.py [FOLDER]`` writes them as Markdown below ``out``: ``c.md`` from
the headers, ``command-line.md`` from the help of the commands, ``json.md`` from the schemas of the
output, ``onnx-operators.md`` from the tests of onnx, ``operators.md`` from the contracts of the
operators, ``plugin-sdk.md`` from what plug-ins import. A plug-in defines more pages in ``PAGES`` of
its ``docs/reference_pages.py``. In the repository, ``docs/reference/generated.md`` stands for them.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from runpy import run_path

import c_reference
import click
import json_reference
import operator_reference
import sdk_reference

from tvmrt.cli import app
from tvmrt.cli.option_groups import GROUPS, group_of
from tvmrt.units import BYTES, FRACTION, SECONDS

ROOT = Path(__file__).parents[1]

HEAD = """# The command line

This page has the texts of `tvmrt COMMAND --help-all`, also for the commands of plug-ins.

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


def commands() -> dict[str, click.Command]:
    """Return all commands, by their names."""
    context = click.Context(app.group, info_name="tvmrt")
    found = {}
    for name in app.group.list_commands(context):
        command = app.group.get_command(context, name)
        found[name] = command
        if isinstance(command, click.Group):
            names = dict.fromkeys([*command.commands, *command.list_commands(context)])
            found |= {f"{name} {sub}": command.get_command(context, sub) for sub in names}
    return found


def command_line() -> str:
    """Return the page of the command line."""
    units = "\n".join(f"| {unit.kind} | {unit.forms} |" for unit in (BYTES, SECONDS, FRACTION))
    sections = [_section(name, command) for name, command in commands().items()]
    return "\n\n".join([HEAD.replace("{units}", units).rstrip(), *sections]) + "\n"


def onnx_operators() -> str:
    """Return the page of ONNX's operators, which takes half a minute."""
    sys.path.insert(0, str(ROOT / "tests" / "python" / "onnx_suite"))
    return str(import_module("operator_table").page())


PAGES = {
    "c.md": c_reference.page,
    "command-line.md": command_line,
    "json.md": json_reference.page,
    "onnx-operators.md": onnx_operators,
    "operators.md": operator_reference.page,
    "plugin-sdk.md": sdk_reference.page,
}


def pages() -> dict[str, Callable[[], str]]:
    """Return the functions that generate the pages, by the paths that links start from."""
    result = {f"docs/reference/{name}": make for name, make in PAGES.items()}
    for file in sorted(ROOT.glob("plugins/*/docs/reference_pages.py")):
        folder = file.parent.relative_to(ROOT).as_posix()
        result |= {f"{folder}/{name}": make for name, make in run_path(str(file))["PAGES"].items()}
    return result


def main() -> None:
    """Write every page below the folder named on the command line, or below ``out``."""
    top = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "out"
    for name, make in pages().items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(make(), encoding="utf-8")
        print(top / name)


if __name__ == "__main__":
    main()
