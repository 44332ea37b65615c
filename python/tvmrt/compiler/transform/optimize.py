"""Order of the passes, with the verifier between them."""

from __future__ import annotations

from collections.abc import Callable

from tvmrt.compiler.ir import Graph
from tvmrt.compiler.ir.extent import named
from tvmrt.compiler.ir.loop import loop_bodies
from tvmrt.compiler.ir.verifier import verify

from .common_subexpressions import eliminate_common_subexpressions
from .crop_windows import crop_windows
from .dead_code import remove_dead_code
from .drop_channels import drop_channels
from .expand_composed import expand_composed
from .flatten_dense import flatten_dense
from .fold_bias import fold_bias
from .fold_pad import fold_pad
from .fold_phases import fold_phases
from .fold_scale import fold_scale
from .fold_scale_parts import fold_scale_parts
from .gather_narrow import gather_narrow
from .join_factors import join_factors
from .layouts import infer_layouts
from .lift_reshapes import lift_reshapes
from .quantize import form_quantized, separate_dequantize
from .simplify import simplify

Pass = Callable[[Graph], None]

# Scales before biases: a normalisation is a scale, then a bias. Simplifying first normalises equal
# expressions; simplifying last cleans up after the others.
PASSES: tuple[tuple[str, Pass], ...] = (
    ("simplify", simplify),
    ("common-subexpressions", eliminate_common_subexpressions),
    ("dead-code", remove_dead_code),
    ("gather-narrow", gather_narrow),
    ("fold-pad", fold_pad),
    ("quantize", form_quantized),
    ("fold-pad-again", fold_pad),
    ("crop-windows", crop_windows),
    ("drop-channels", drop_channels),
    ("fold-bias", fold_bias),
    ("join-factors", join_factors),
    ("fold-scale", fold_scale),
    ("fold-scale-parts", fold_scale_parts),
    ("fold-bias-again", fold_bias),
    ("fold-phases", fold_phases),
    ("flatten-dense", flatten_dense),
    ("lift-reshapes", lift_reshapes),
    ("simplify-again", simplify),
    ("common-subexpressions-again", eliminate_common_subexpressions),
    ("dead-code-again", remove_dead_code),
    ("separate-dequantize", separate_dequantize),
)


def optimize(graph: Graph, observe: Callable[[str, Graph], None]) -> None:
    """Run every pass on the graph in place; ``observe`` is called with it after each.

    Raises ValueError naming the pass if the graph is not valid after it.
    """
    verify(graph, "import")
    for name, run in PASSES:
        with named([f"the pass {name}"]):
            run(graph)
        verify(graph, name)
        observe(name, graph)
    for body in loop_bodies(graph):
        expand_composed(body)
        optimize(body, lambda name, graph: None)
        infer_layouts(body)
