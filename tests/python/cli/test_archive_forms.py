"""Every form of a compiled network, given to every command: it works, or one sentence refuses it.

The cells of the table come from tvmrt's own tables: rows of options, suffixes and formats of
outputs, commands with their parameters. A new format, option or command adds cells by itself.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import boards
import click
import pytest

from tvmrt import plugin
from tvmrt.cli import compile as compile_module
from tvmrt.cli import main
from tvmrt.cli.app import group
from tvmrt.cli.options import GroupedOption
from tvmrt.compiler.export import formats
from tvmrt.compiler.request import all_options

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
NETWORKS = [str(DIGITS / f"digits_{kind}.onnx") for kind in ("int8", "f32")]
BOARD = "cortex-m4"
ROWS = dict(all_options())
INTERFACE = ("interface_api", "unpacked_api", "workspace_io")  # rows that change how C is called
CONNECTIONS = {"--rpc": "qemu"}  # values that need no machine
GLOBAL = ("as_json", "quiet", "verbose")
# Values of options that no row lists; a row of a plug-in or of boards without one is an error.
SAMPLES = {
    "board": ["stm32f4"],
    "pools": ["sram=65536", "sram=65536@.bss.ram"],
    "ram": ["64KiB"],
    "place": ["conv1*=flash@.fast"],
    "trace_records": [],  # needs --profile, and changes only a size
    "stream": ["2,causal"],
    "signature": ["serving_default"],
    "evidence": ["evidence"],
    "evidence_inputs": ["in.npz"],
    "evidence_key": ["key.pem"],
}
# What a message never has: other programs' diagnostics, and files that are gone when it is read.
_FOREIGN = re.compile(
    r"\.[ch]:\d+|ld returned|Traceback|defect in tvmrt|Errno|\[ONNXRuntimeError\]|/tvmrt-\w{8}/"
)
_REMEDY = re.compile(
    r"\b(give|choose|compile|use|write|export|run|needs?|name|set|add|omit|copy|dump|takes?|"
    r"must end in|install|is not installed|reports)\b"
)


def values_of(name: str) -> list[list[str]]:
    """Return the words of each value of an option."""
    row = ROWS[name]
    if row.kind == "bool":
        return [[flag] for flag in row.flag.split("/")]
    return [[row.flag, value] for value in row.values or SAMPLES[name]]


def interfaces(rows: Sequence[str] = INTERFACE) -> list[list[str]]:
    """Return the options of every interface, invalid combinations included."""
    values = [values_of(name) for name in rows]
    absent = [[[]] if ROWS[name].kind == "bool" else [] for name in rows]
    chosen = itertools.product(*map(list.__add__, absent, values))
    return [[*itertools.chain(*words)] for words in chosen]


def forms() -> dict[str, list[str]]:
    """Return the outputs by name, with their options."""
    files = (*formats.FILE_SUFFIXES, *formats.output_suffixes())
    folders = {name: ["--format", name] for name in formats.formats()}
    return {"folder": [], **{f"net{suffix}": [] for suffix in files}, **folders}


def added_options() -> list[list[str]]:
    """Return the options of plug-ins, those of boards, and the place of the weights."""
    names = [n for n, row in ROWS.items() if row.group == "Boards" or plugin.has("options", n)]
    names.append("params")
    return [words for name in names if name not in INTERFACE for words in values_of(name)]


def commands() -> Iterator[tuple[list[str], click.Command]]:
    """Yield all commands with their words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if not isinstance(command, click.Group):
            yield [name], command
            continue
        for second in command.list_commands(context):
            yield [name, second], command.get_command(context, second)


def modes(words: list[str], own: Sequence[click.Parameter]) -> Iterator[list[str]]:
    """Yield the options that change what a command does: flags, a board, another machine."""
    flags = [
        [o.opts[0]]
        for o in own
        if getattr(o, "is_flag", False) and not o.is_eager and o.name not in GLOBAL
    ]
    places = [[word, CONNECTIONS[word]] for o in own for word in o.opts if word in CONNECTIONS]
    places += [["--board", BOARD] for o in own if o.name == "board"]
    always = ["--random"] if ["--random"] in flags else []
    for place, flag in itertools.product([[], *places], [[], *flags]):
        if not always or flag != always:
            yield [*place, *flag, *always]


def readers(path: Path, folder: Path) -> Iterator[list[str]]:
    """Yield command lines that read a file, in each place for a path."""
    for words, command in commands():
        own = [
            p
            for p in command.get_params(click.Context(command))
            if not (isinstance(p, GroupedOption) and p.name in ROWS)
        ]
        paths = [p for p in own if isinstance(p.type, click.Path)]
        paths = [p for p in paths if p.required or isinstance(p, click.Argument)]
        for subject in (p for p in paths if p.name != "output"):
            line = []
            for p in paths:
                value = path if p is subject else NETWORKS[0]
                value = folder / "out.onnx" if p.name == "output" else value
                line += [*([] if isinstance(p, click.Argument) else p.opts[:1]), str(value)]
            if not any(p.required for p in own if p not in paths):
                for mode in modes(words, own):
                    yield [*words, *line, *mode]


class Cells:
    """Runs command lines and checks what each one prints."""

    def __init__(self, capsys) -> None:
        self.capsys, self.wrong, self.counts = capsys, [], Counter()

    def run(self, line: Sequence[str]) -> bool:
        """Run a command; return whether it works. A bad answer is kept for ``check``."""
        self.capsys.readouterr()
        code = main([str(word) for word in line])
        out, error = self.capsys.readouterr()
        lines = [text for text in error.splitlines() if text.startswith("tvmrt: error: ")]
        text = lines[0] if lines else ""
        if code == 0:
            bad = not out.strip() or bool(lines)
        else:
            bad = code != 2 or len(lines) != 1 or not _REMEDY.search(text)
            bad = bad or _FOREIGN.search(error) is not None
        if bad:
            self.wrong.append((" ".join(map(str, line)), code, error.strip() or "prints nothing"))
        self.counts["works" if code == 0 else "refused"] += 1
        return code == 0

    def must_work(self, line: Sequence[str]) -> None:
        if not self.run(line):
            self.wrong.append((" ".join(map(str, line)), "is refused"))

    def check(self) -> None:
        """Print the number of cells, which ``pytest -rP`` shows, and fail for bad answers."""
        print(f"{self.counts['works']} cells work, {self.counts['refused']} are refused")
        assert self.wrong == [], "\n".join(map(str, self.wrong))


def compiled(cells: Cells, networks: Sequence[str], options: Sequence[str]) -> Iterator[Path]:
    """Write every form; yield what was written."""
    for name, more in forms().items():
        path = Path(name)
        cells.run(["compile", *networks, "-o", path, *options, *more])
        if path.is_file() or (path.is_dir() and any(path.iterdir())):
            yield path


def _cases() -> Iterator[tuple]:
    """Yield all combinations, one that takes little time first."""
    executors = sorted(values_of("executor"), reverse=True)
    for target, executor, interface in itertools.product(("host", BOARD), executors, interfaces()):
        for count in (1, len(NETWORKS)):
            yield target, [*executor, *interface], count


def _id(value: object) -> str:
    return " ".join(value) if isinstance(value, list) else str(value)


@pytest.mark.everyday(1)
@pytest.mark.parametrize(("target", "options", "count"), list(_cases()), ids=_id)
def test_every_form_in_every_command(capsys, monkeypatch, tmp_path, target, options, count):
    if target == BOARD and (tool := boards.BOARDS[BOARD].missing_tool()):
        pytest.skip(f"{tool} is not installed")
    monkeypatch.chdir(tmp_path)
    cells = Cells(capsys)
    chosen = ["--target", target, "--runtime", "crt", *options]
    for path in compiled(cells, NETWORKS[:count], chosen):
        for line in readers(path, tmp_path):
            on_board = ["--board", BOARD] == line[2:4] and "graph" not in options
            if path.suffix == ".tar" and target == BOARD and on_board:
                cells.must_work(line)
            elif path.suffix == ".elf" and line[0] in ("run", "bench") and "--rpc" in line:
                cells.must_work([word for word in line if word != "--profile"])
            else:
                cells.run(line)
    cells.check()


@pytest.mark.slow
@pytest.mark.parametrize("options", interfaces((INTERFACE[0], INTERFACE[-1])), ids=_id)
@pytest.mark.parametrize("added", added_options(), ids=_id)
def test_every_form_with_every_option(capsys, monkeypatch, tmp_path, options, added):
    if tool := boards.BOARDS[BOARD].missing_tool():
        pytest.skip(f"{tool} is not installed")
    monkeypatch.chdir(tmp_path)
    # the other test measures code, which takes most of the time of a compilation
    monkeypatch.setattr(compile_module, "measure_code", lambda *_: None)
    cells = Cells(capsys)
    place = [] if "--board" in added else ["--target", BOARD]
    for path in compiled(cells, NETWORKS[:1], [*place, *options, *added]):
        if path.suffix == ".tar":
            cells.must_work(["inspect", path, "--board", BOARD])
    cells.check()


def test_the_table_covers_the_tools():
    """The table finds what is known today, so an error in reading the tables shows."""
    found = {" ".join(words) for words, _ in commands()}
    assert {"inspect", "run", "bench", "verify", "weights", "doctor"} <= found
    lines = [" ".join(line) for line in readers(Path("net.tar"), Path())]
    assert {"inspect net.tar", "run net.tar --random"} <= {*lines}
    if plugin.find("hooks", "inspect board"):
        assert f"inspect net.tar --board {BOARD} --timing" in lines
    assert len(interfaces()) == 2 * 3 * 2
    assert len(forms()) >= len(formats.FILE_SUFFIXES) + 1
