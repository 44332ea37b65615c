"""The compiler option ``toy_times``, on the command line ``--toy-times``."""

from tvmrt.option import Option

TIMES = Option(
    "How often a .toy network adds its numbers.",
    default=1,
    type="int",
    kind="int",
    least=1,
    form="N",
    commands=("verify", "bench"),
)
