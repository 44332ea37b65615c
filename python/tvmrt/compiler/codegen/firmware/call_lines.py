"""C lines around the operator calls of a firmware network, which an option of a plug-in adds."""

from __future__ import annotations

from tvmrt.compiler.ir.program import Program

from ..entries.arguments import Arguments
from ..options import Options, Sources


class CallLines:
    """Base class of printers of additional lines; it adds none.

    ``begin()`` and ``around()`` are printed into functions that return an error code: the main
    function, and the function of a run in steps. A line may return a code of
    ``tvm/runtime/error_codes.h``.
    """

    def __init__(
        self,
        program: Program,
        prefix: str,
        sources: Sources,
        options: Options,
        arguments: Arguments,
    ) -> None:
        self.program, self.prefix, self.sources = program, prefix, sources
        self.options, self.arguments = options, arguments

    # whether each constant that an operator defines exists twice: see c/initializers.py
    pairs_constants = False

    @classmethod
    def macros(cls, program: Program, sources: Sources) -> dict[str, str]:
        """Return macros by name that the operators' files define before their kernel headers.

        ``sources`` has the printed functions, without files.
        """
        return {}

    @classmethod
    def extend(cls, sources: Sources) -> list[str]:
        """Add text to the printed functions; return declarations for the operators' header."""
        return []

    def declarations(self) -> list[str]:
        """Return lines of the network's header."""
        return []

    def includes(self) -> list[str]:
        """Return the ``#include`` lines of files that call operators."""
        return []

    def begin(self) -> list[str]:
        """Return the lines before the first operator of a run."""
        return []

    def around(self, index: int) -> tuple[list[str], list[str]]:
        """Return the lines before and after the call of step ``index`` of the program."""
        return [], []

    def step_sum(self, state: str) -> str | None:
        """Return the C expression of the sum of a sliced run's state, or None for no check.

        ``state`` is the type of ``*state``; its member ``sum`` follows those that are summed.
        """
        return None

    def files(self) -> dict[str, str]:
        """Return additional C files of the network by name."""
        return {}


def make(
    program: Program, prefix: str, sources: Sources, options: Options, arguments: Arguments
) -> CallLines:
    """Return the printer of the request's options."""
    printer = options.call_lines or CallLines
    return printer(program, prefix, sources, options, arguments)
