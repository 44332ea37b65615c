"""``tvmrt tvmc``: translate tvmc command lines to tvmrt, print and run them."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import click

from tvmrt.cli import connections, console, files, options
from tvmrt.file_suffix import suffix_of
from tvmrt.units import COUNT

# Flags of tvmc without effect here, and the reason.
IGNORED_FLAGS = {
    "desired_layout": "every kernel has its own layout, which the compiler chooses",
    "pass_config": "there are no passes to configure",
    "disabled_pass": "there are no passes to leave out",
    "opt_level": "every network is fully optimized",
    "tuning_records": "kernels are selected without tuning",
    "dump_code": "the sources are there by 'tvmrt compile -o FOLDER'",
    "model_format": "the format is detected",
    "end_to_end": "times are those of the network alone",
}
# Words of TVM's targets, and their --target; the first match is used.
TARGETS = (
    ("aarch64", "aarch64-linux"), ("riscv64", "riscv64-linux"), ("armv7", "armv7-linux"),
    ("cortex-m0plus", "cortex-m0plus"), ("cortex-m33", "cortex-m33"), ("cortex-m3", "cortex-m3"),
    ("cortex-m4", "cortex-m4"), ("cortex-m55", "cortex-m55"), ("cortex-m7", "cortex-m7"),
    ("cortex-r5", "cortex-r5f"),
)  # fmt: skip
HOSTS = ("llvm", "c", "native")
MICRO = (
    "firmware is built from the archive of 'tvmrt compile NETWORK -o net.tar --target cortex-m4' "
    "by the board's own tools, and answers remote calls; see docs/how-to/firmware.md"
)


class CommandLine:
    """Command line of tvmrt, built from tvmc flags; ``variables`` are those of its environment."""

    def __init__(self, *words: object) -> None:
        self.words = [str(word) for word in words]
        self.variables: dict[str, str] = {}

    def add(self, flag: str, *values: object) -> None:
        """Append a flag once per value."""
        for value in values:
            self.words += [flag, str(value)]

    def run(self, shown: dict[Path, str] | None = None) -> None:
        """Print and run the line; paths in ``shown`` are printed under other names."""
        from tvmrt.cli import app

        def name(text: str) -> str:
            for path, instead in (shown or {}).items():
                text = text.replace(str(path), instead)
            return text

        variables = [f"{key}={shlex.quote(value)} " for key, value in self.variables.items()]
        click.echo("".join(variables) + name(shlex.join(["tvmrt", *self.words])), err=True)
        os.environ.update(self.variables)
        captured = io.StringIO()
        try:
            with contextlib.redirect_stdout(captured):
                app.group.main(args=self.words, prog_name="tvmrt", standalone_mode=False)
        finally:
            click.echo(name(captured.getvalue()), nl=False)


def _warn_ignored(given: dict[str, Any]) -> None:
    for name, value in given.items():
        if value not in (None, (), False):
            console.note(f"--{name.replace('_', '-')} is not supported: {IGNORED_FLAGS[name]}")


def target_of(text: str | None) -> str | None:
    """Return the --target for a TVM target such as ``llvm -mcpu=...`` or ``c -mcpu=...``; None for
    tvmrt's default, code for all processors of this machine's kind."""
    text = text or "llvm"
    for word, name in TARGETS:
        if word in text:
            return name
    kind = re.split(r"[\s,]", text.strip())[0]
    if kind not in HOSTS:
        raise ValueError(
            f"unknown target '{text}': give llvm for this machine, a name of 'tvmrt "
            "compile --target', or a device by 'tvmrt compile --device'"
        )
    if "-mtriple" in text and "x86_64" not in text:
        raise ValueError(f"unknown target triple in '{text}'")
    return "native" if "native" in text else None


def shapes_of(text: str) -> list[str]:
    """Return values of --shape for tvmc's ``name:[1,3,224,224] other:[1]``."""
    found = re.findall(r"([^\s\[\]]+?):\s*\[([^\]]*)\]", text)
    if not found or re.sub(r"([^\s\[\]]+?):\s*\[([^\]]*)\]", "", text).strip(" ,"):
        raise click.BadParameter(
            f"'{text}' is not of the form 'NAME:[DIM,...] NAME:[DIM,...]'",
            param_hint="--input-shapes",
        )
    return [f"{name.strip(', ')}={extents.replace(' ', '')}" for name, extents in found]


def _ignored_flags(*names: str, **more: Any) -> Any:
    """Return an option that is accepted and ignored."""
    why = IGNORED_FLAGS[names[-1].strip("-").replace("-", "_")]
    return click.option(*names, help=f"Ignored: {why}.", **more)


# Flags of TVM's option groups that this command lacks, and why they are unnecessary.
GROUPS = {
    "executor": "the executor has no such choice",
    "runtime": "the runtime has no such choice",
    "target": "code has the levels of the processors that --target names",
}
_GROUP_FLAG = re.compile(rf"--({'|'.join(GROUPS)})-(\w+)-([\w-]+?)(?:=(.*))?", re.DOTALL)


def without_groups(words: list[str], known: set[str]) -> tuple[list[str], list[str]]:
    """Remove the flags of TVM's option groups from a command line.

    Parameters
    ----------
    words
        The command line.
    known
        The options of the command.

    Returns
    -------
    tuple
        The other words, with ``--target-llvm-mcpu`` and ``-mtriple`` merged into the target, and a
        message for each other flag.
    """
    remaining, target, messages = [], [], []
    left = iter(words)
    for word in left:
        flag = _GROUP_FLAG.fullmatch(word)
        if flag is None or word.partition("=")[0] in known:
            remaining.append(word)
            continue
        group, kind, name, value = flag.groups()
        value = next(left, "") if value is None else value
        if group == "target" and name in ("mcpu", "mtriple"):
            target += [kind, f"-{name}={value}"]
        else:
            messages.append(f"--{group}-{kind}-{name} is not supported: {GROUPS[group]}")
    if target and "--target" in remaining[:-1]:
        remaining[remaining.index("--target") + 1] += " " + " ".join(target[1::2])
    elif target:
        remaining += ["--target", " ".join([target[0], *target[1::2]])]
    return remaining, messages


class _Compile(click.Command):
    """Command that accepts the flags of all of TVM's option groups."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        remaining, messages = without_groups(args, {word for p in self.params for word in p.opts})
        for sentence in messages:
            console.note(sentence)
        return super().parse_args(ctx, remaining)


@click.group("tvmc")
def command() -> None:
    """Translate a tvmc command line to tvmrt, print the tvmrt line and run it.

    Flags that tvmrt does not support are reported.
    """


@command.command("compile", cls=_Compile)
@click.argument("file", type=options.PATH, metavar="FILE")
@click.option("-o", "--output", type=options.PATH, default="module.tar", show_default=True,
    help="The package, or a library OUT.so.",
)  # fmt: skip
@click.option(
    "-f", "--output-format", type=click.Choice(("so", "mlf", "a")), default="so", show_default=True,
    help="so: a package of library, graph and parameters; mlf: Model Library Format; a: a static "
        "library OUT.a and its header.",
)  # fmt: skip
@click.option("--target", help="llvm, c, or one with -mcpu= or -mtriple=.")
@click.option("--input-shapes", help="NAME:[DIM,...] NAME:[DIM,...]")
@click.option("--executor", type=click.Choice(("graph", "aot")),
    help="As for tvmrt compile. Default: graph; aot for a static library.",
)  # fmt: skip
@click.option("--runtime", type=click.Choice(("cpp", "crt")),
    help="crt: for a target without an operating system. Default: cpp; crt for a static library.",
)  # fmt: skip
@click.option("--executor-aot-interface-api", type=click.Choice(("packed", "c")),
    help="tvmrt compile --interface-api.",
)  # fmt: skip
@click.option("--executor-aot-unpacked-api", type=click.Choice(("0", "1")),
    help="tvmrt compile --unpacked-api.",
)  # fmt: skip
@click.option("--module-name", help="Name of the network.")
@click.option("--cross-compiler", help="The C compiler.")
@click.option(
    "--cross-compiler-options", metavar="OPTIONS", help="Set TVMRT_CFLAGS to these options."
)
@_ignored_flags("--pass-config", multiple=True)
@_ignored_flags("--disabled-pass")
@_ignored_flags("--desired-layout")
@_ignored_flags("--tuning-records")
@_ignored_flags("--dump-code")
@_ignored_flags("--model-format")
@_ignored_flags("-O", "--opt-level")
@click.option("-v", "--verbose", count=True, help="Ignored.")
def compile_command(
    file: Path, output: Path, output_format: str, target: str | None, input_shapes: str | None,
    executor: str | None, runtime: str | None, executor_aot_interface_api: str | None,
    executor_aot_unpacked_api: str | None, module_name: str | None, cross_compiler: str | None,
    cross_compiler_options: str | None, verbose: int, **ignored: Any,
) -> None:  # fmt: skip
    """Compile the network FILE."""
    _warn_ignored(ignored)
    line = CommandLine("compile", file)
    line.add("--target", *filter(None, [target_of(target)]))
    if executor is None and output_format != "a" and suffix_of(output) != ".a":
        executor = "graph"
    line.add("--executor", *filter(None, [executor]))
    line.add("--shape", *(shapes_of(input_shapes) if input_shapes else ()))
    if runtime == "crt":
        line.add("--runtime", "crt")
    line.add("--interface-api", *filter(None, [executor_aot_interface_api]))
    if executor_aot_unpacked_api:
        unpacked = executor_aot_unpacked_api == "1"
        line.words.append("--unpacked-api" if unpacked else "--no-unpacked-api")
    line.add("--module-name", *filter(None, [module_name]))
    line.add("--cc", *filter(None, [cross_compiler]))
    if cross_compiler_options:
        line.variables["TVMRT_CFLAGS"] = cross_compiler_options
    if output_format == "mlf" or suffix_of(output) in (".so", ".a"):
        line.add("-o", output)
        line.run()
    else:
        files.check_target(output)
        _compile_package(line, output, executor)


def _compile_package(line: CommandLine, output: Path, executor: str | None) -> None:
    if executor != "graph":
        raise ValueError(
            f"a package is for the graph executor: name the output of {executor} "
            f"{output.with_suffix('.so')}, or write Model Library Format with -f mlf"
        )
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "mod.so"
        line.add("-o", library)
        line.run({library: "mod.so"})
        _write_package(output, library)
    click.echo(f"wrote {output}: mod.so, mod.json, mod.params")


def _write_package(path: Path, library: Path) -> None:
    """Write a tvmc package. Its parameter file is empty, since the library has the parameters."""
    from tvmrt.compiler.export import atomic
    from tvmrt.runtime import load_module, save_param_dict

    graph = str(load_module(library)["get_graph_json"]())
    parts = {
        "mod.so": library.read_bytes(),
        "mod.json": graph.encode(),
        "mod.params": bytes(save_param_dict({})),
    }
    with files.writing(path), atomic.replacing(path) as aside, tarfile.open(aside, "w") as tar:
        for name, data in parts.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


@command.command("run", cls=connections.ConnectedCommand, connected="tvmc run")
@click.argument("file", type=options.PATH, metavar="FILE")
@click.option("--device", default="cpu", show_default=True, help="cpu; no other.")
@click.option("-i", "--inputs", type=options.PATH, metavar="IN.npz", help="Inputs by name.")
@click.option("-o", "--outputs", type=options.PATH, metavar="OUT.npz", help="Where outputs go.")
@click.option(
    "--fill-mode", type=click.Choice(("random", "zeros", "ones")), default="random",
    show_default=True, help="Values of the inputs that are not given.",
)  # fmt: skip
@click.option("--print-top", type=options.Quantity(COUNT, 1), metavar="N",
    help="Print the N largest values of each output.",
)  # fmt: skip
@click.option("--print-time", is_flag=True, help="Tell the times.")
@click.option("--profile", is_flag=True, help="Report the time of every operator.")
@click.option("--repeat", type=options.Quantity(COUNT, 1), default=1, show_default=True,
    help="Number of measurements.",
)  # fmt: skip
@click.option("--number", type=options.Quantity(COUNT, 1), default=1, show_default=True,
    help="Runs per measurement.",
)  # fmt: skip
@click.option("--project-dir", hidden=True)
@click.option("--project-option", hidden=True, multiple=True)
@_ignored_flags("--end-to-end", is_flag=True)
@click.option("-v", "--verbose", count=True, help="Ignored.")
def run_command(
    file: Path, device: str, inputs: Path | None, outputs: Path | None, fill_mode: str,
    print_top: int | None, print_time: bool, profile: bool, repeat: int, number: int,
    remote: connections.RemoteExecution, verbose: int, project_dir: str | None,
    project_option: tuple[str, ...], **ignored: Any,
) -> None:  # fmt: skip
    """Run the compiled network FILE: a package, or a library."""
    _warn_ignored(ignored)
    if device == "micro":
        raise ValueError(MICRO)
    if device != "cpu":
        raise ValueError(
            f"there is no device '{device}' to run on: which devices compute parts of a network "
            "is chosen by 'tvmrt compile --device'"
        )
    line = CommandLine("run", file)
    with tempfile.TemporaryDirectory() as folder:
        made = {Path(folder) / name: name for name in (f"{fill_mode}.npz", "outputs.npz")}
        filled, unasked = made
        if inputs is None and fill_mode != "random":
            _fill(file, fill_mode, filled)
            inputs = filled
        line.words += ["--random"] if inputs is None else ["--inputs", str(inputs)]
        kept = outputs or (unasked if print_top else None)
        line.add("--outputs", *filter(None, [kept]))
        runs = max(repeat * number, 2 if print_time else 1)
        line.add("--repeat", *([runs] if runs > 1 else []))
        line.words += ["--profile"] if profile else []
        line.words += remote.words
        line.run(made)
        if print_top and kept:
            _print_top(kept, print_top)


def _fill(library: Path, mode: str, path: Path) -> None:
    import numpy as np

    from tvmrt.cli.session import Session

    files.check_file(library)
    infos = Session(library, None).largest_inputs()
    value = 0 if mode == "zeros" else 1
    files.save_arrays(path, {i.name: np.full(i.shape, value, i.dtype) for i in infos})


def _print_top(path: Path, count: int) -> None:
    """Print the largest values of each output with their indices, the largest first."""
    for name, values in files.load_inputs(path).items():
        flat = values.ravel()
        best = (-flat).argsort(kind="stable")[:count] if flat.dtype.kind != "b" else range(0)
        click.echo(f"{name}: index {' '.join(map(str, best))}")
        click.echo(f"{name}: value {' '.join(f'{flat[i]:.6g}' for i in best)}")


@command.command("tune", context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS] FILE")
def tune_command(words: tuple[str, ...]) -> None:
    """Report that tuning is not needed."""
    console.note(f"{IGNORED_FLAGS['tuning_records']}; go on with 'tvmrt tvmc compile'")


@command.command("micro", context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND [OPTIONS]")
def micro_command(words: tuple[str, ...]) -> None:
    """Report how firmware is built instead."""
    raise ValueError(MICRO)
