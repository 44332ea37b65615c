"""What a library states about its network for callers: names of columns, and carried inputs."""

from __future__ import annotations

import json
from collections import Counter

from tvmrt.compiler.ir.program import Program

from .entries.metadata import print_text_getter
from .operators.scatter import ScatterLowering


def print_facts(program: Program, prefix: str) -> list[str]:
    """Return C lines of the function ``get_facts``, which returns JSON; none without facts:
    ``{"columns": [name], "carried": {input: output}, "in_place": [input]}``, each if there are
    some. An input in place and its output may be one tensor."""
    facts = {"columns": program.columns, "carried": program.carried}
    names = {name for name in _updated_in_place(program) if name in program.carried}
    facts["in_place"] = sorted(names)
    text = json.dumps({key: value for key, value in facts.items() if value})
    return print_text_getter(prefix, "get_facts", text) if text != "{}" else []


def _updated_in_place(program: Program) -> list[str]:
    """Return the inputs whose only reader writes them to an output with changes at some places."""
    inputs = dict(zip(program.inputs, program.input_names))
    uses = Counter(b for step in program.steps for b in {a.buffer for a in step.accesses()})
    names = []
    for step in program.steps:
        if not isinstance(step.lowering, ScatterLowering):
            continue
        for read, write in step.lowering.in_place(step):
            data, result = step.reads[read], step.writes[write]
            whole = data.covers_buffer() and result.covers_buffer()
            if whole and result.buffer in program.outputs and uses[data.buffer] == 1:
                names += [inputs[data.buffer]] if data.buffer in inputs else []
    return names
