"""The command group; it reports each failure as one sentence and an exit code."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import click

from tvmrt import option_syntax, optional_dependencies, plugin
from tvmrt.cli import plugin_commands, verbosity
from tvmrt.error import TvmrtWarning, similar_names, suggestion
from tvmrt.libinfo import __version__

DONE, WRONG_RESULT, CANNOT = 0, 1, 2
INTERRUPTED = 130  # exit code of shells for a program that Ctrl-C ended
TERMINATED = 143  # exit code of shells for a program that SIGTERM ended

# Maps a command name to the module that defines it as ``command``, imported at first use.
COMMANDS = {
    "compile": "tvmrt.cli.compile",
    "run": "tvmrt.cli.run",
    "verify": "tvmrt.cli.verify",
    "bench": "tvmrt.cli.bench",
    "weights": "tvmrt.cli.weights",
    "inspect": "tvmrt.cli.inspect",
    "cache": "tvmrt.cli.cache",
    "config": "tvmrt.cli.config",
    "doctor": "tvmrt.cli.doctor",
    "explain": "tvmrt.cli.explain",
    "schema": "tvmrt.cli.schema",
    "device": "tvmrt.cli.device",
}


class LazyGroup(click.Group):
    """A group that imports its commands at first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order of a typical workflow."""
        added = [name for name in plugin.keys("commands") if " " not in name]
        return [*COMMANDS, *(name for name in added if name not in COMMANDS)]

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple:
        """Find the command; the error for an unknown one names similar commands."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            hint = suggestion(args[0], self.list_commands(ctx))
            error.message = f"{error.message.rstrip('.')}; {hint}"
            raise

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read ``help`` as ``--help``, and ``help COMMAND`` as ``COMMAND --help``."""
        if args[:1] == ["help"]:
            args = [*args[1:2], "--help"]
        return super().parse_args(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command and set its short help to its first sentence, uncut."""
        command: click.Command | None
        module = COMMANDS.get(cmd_name)
        if module is not None:
            command = importlib.import_module(module).command
        else:
            command = plugin_commands.find(cmd_name)
        if command is None:
            return None
        verbosity.add_options(command)
        sentence = re.match(r".*?(?<!\.)(?=\.(\s|$))", " ".join((command.help or "").split()))
        command.short_help = sentence.group() if sentence else None
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="tvmrt %(version)s", help="Print the version and exit.")
def group() -> None:
    """Compile trained ONNX networks to C and run them.

    Exit codes: 0 success, 1 the result is wrong (verify, doctor), 2 the command failed; the
    reason is one sentence on standard error.
    """


verbosity.add_options(group)

# remedies for system errors, whose texts state only the problem
_REMEDIES = {
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path",
    errno.EISDIR: "name a file",
    errno.EACCES: "check the permissions, or give another path",
    errno.EPERM: "check the permissions, or give another path",
    errno.EROFS: "choose another path",
    errno.ENOSPC: "free some space, or give another path",
}


def one_line(error: BaseException) -> str:
    """Return the text of an exception on one line, without Python's decoration."""
    if isinstance(error, OSError) and str(error.strerror).startswith("No usable temporary"):
        text = f"{error.strerror}; set TMPDIR to a folder that can be written"
    elif isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        remedy = _REMEDIES.get(error.errno or 0)
        text = f"{text}; {remedy}" if remedy else text
    elif isinstance(error, KeyError) and len(error.args) == 1:
        text = str(error.args[0])  # str() of a KeyError is the repr of its argument
    elif isinstance(error, MemoryError):
        text = f"out of memory ({error})" if str(error) else "out of memory"
    elif isinstance(error, click.NoSuchOption):
        known = {each.lstrip("-"): each for each in error.possibilities or ()}
        similar = similar_names(error.option_name.lstrip("-"), known)
        error.possibilities = [known[name] for name in similar]
        text = error.format_message()
    elif isinstance(error, click.ClickException):
        text = error.format_message()
    elif isinstance(error, ModuleNotFoundError):
        text = optional_dependencies.install_advice(error) or str(error)
    else:
        text = str(error)
    return " ".join(text.split()) or type(error).__name__


def _is_expected_error(error: BaseException) -> bool:
    """Return whether an error is caused by a file or a user, not by a defect of tvmrt."""
    from tvmrt.error import TVMError

    foreseen = (TVMError, OSError, ValueError, TypeError, KeyError, ImportError, MemoryError)
    return isinstance(error, foreseen)


def _print_error(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # standard error may be closed
        print(f"tvmrt: error: {text}", file=sys.stderr, flush=True)


def _print_warning(
    message: Warning | str, category: type[Warning], *location: Any, **more: Any
) -> None:
    """Print a remark as a note for the user, and other warnings in their usual form."""
    if verbosity.level() is verbosity.Level.QUIET:
        return
    text = f"tvmrt: note: {message}"
    if not issubclass(category, TvmrtWarning):
        text = warnings.formatwarning(message, category, *location[:2])
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def _abandon_stdout() -> None:
    """Redirect standard output, which has failed, so that the flush at exit succeeds."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Terminated(BaseException):
    """SIGTERM has arrived; temporary files are removed on the way out, as after Ctrl-C."""


def _is_server(arguments: Sequence[str]) -> bool:
    """Return whether the command is a server, which runs until a signal ends it."""
    if not arguments or arguments[0] in COMMANDS or str(arguments[0]).startswith("-"):
        return False
    name = " ".join(map(str, arguments[:2]))
    return any(name in each.servers for each in plugin.plugins().values())


@contextlib.contextmanager
def _sigterm_as_interrupt(arguments: Sequence[str]) -> Iterator[None]:
    """Let SIGTERM end a command as Ctrl-C does, unless it has a handler already."""
    ours = threading.current_thread() is threading.main_thread() and (
        signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )
    if not ours or _is_server(arguments):
        yield
        return

    def terminate(*_: Any) -> None:
        raise _Terminated

    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command; see :func:`tvmrt.cli.main`."""
    verbosity.reset()
    if verbosity.level() is not verbosity.Level.VERBOSE:
        warnings.simplefilter("ignore")  # third-party warnings are for developers, not users
    warnings.filterwarnings("always", category=TvmrtWarning)
    warnings.showwarning = _print_warning
    try:
        given = sys.argv[1:] if arguments is None else arguments
        with _sigterm_as_interrupt(given), option_syntax.command_line():
            result = group.main(args=arguments, prog_name="tvmrt", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else DONE
    except click.UsageError as error:
        if error.ctx is not None and type(error).__name__ == "NoArgsIsHelpError":
            click.echo(error.ctx.get_help())
            return CANNOT
        name = error.ctx.command_path if error.ctx else "tvmrt"
        _print_error(f"{one_line(error)} (see '{name} --help')")
    except (click.exceptions.Abort, KeyboardInterrupt):
        _print_error("interrupted")
        return INTERRUPTED
    except _Terminated:
        _print_error("terminated")
        return TERMINATED
    except (BrokenPipeError, SystemExit):  # click and rich exit on a broken pipe
        _abandon_stdout()
        return DONE
    except Exception as error:
        if os.environ.get("TVMRT_TRACEBACK"):
            raise
        if verbosity.level() is verbosity.Level.VERBOSE:
            traceback.print_exc()
        text = one_line(error)
        if isinstance(error, OSError) and error.errno == errno.ENOSPC and not error.filename:
            _abandon_stdout()
            text = f"standard output: {text}"
        elif not (isinstance(error, click.ClickException) or _is_expected_error(error)):
            text = (
                f"defect in tvmrt: {type(error).__name__}: {text}; please report it "
                "with what TVMRT_TRACEBACK=1 prints"
            )
        _print_error(text)
    return CANNOT
