"""Order of the passes, with the verifier before and after them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from tvmrt import plugin
from tvmrt.compiler.ir import Graph
from tvmrt.compiler.ir.loop import loop_bodies
from tvmrt.compiler.ir.sizes import error_context
from tvmrt.compiler.ir.verifier import verify
from tvmrt.error import suggestion

from .common_subexpressions import eliminate_common_subexpressions
from .crop_windows import crop_windows
from .dead_code import remove_dead_code
from .expand_composed import expand_composed
from .flatten_dense import flatten_dense
from .fold_bias import fold_bias
from .fold_pad import fold_pad
from .fold_scale import fold_scale
from .fold_space_to_depth import fold_space_to_depth
from .form_quantized_ops import form_quantized_ops, separate_dequantize
from .gather_before_widen import gather_before_widen
from .layout_inference import infer_layouts
from .prune_channels import prune_channels
from .simplify import simplify

Pass = Callable[[Graph], None]

# Scales before biases: a normalisation is a scale, then a bias. Simplifying first normalises equal
# expressions; simplifying last cleans up after the others.
PASSES: tuple[tuple[str, Pass], ...] = (
    ("simplify", simplify),
    ("common-subexpressions", eliminate_common_subexpressions),
    ("dead-code", remove_dead_code),
    ("gather-before-widen", gather_before_widen),
    ("fold-pad", fold_pad),
    ("quantize", form_quantized_ops),
    ("fold-pad-again", fold_pad),
    ("crop-windows", crop_windows),
    ("prune-channels", prune_channels),
    ("fold-bias", fold_bias),
    ("fold-scale", fold_scale),
    ("fold-bias-again", fold_bias),
    ("fold-space-to-depth", fold_space_to_depth),
    ("flatten-dense", flatten_dense),
    ("simplify-again", simplify),
    ("common-subexpressions-again", eliminate_common_subexpressions),
    ("dead-code-again", remove_dead_code),
    ("separate-dequantize", separate_dequantize),
)


@dataclass(frozen=True)
class GraphPass:
    """A pass of a plug-in: ``run`` changes a graph in place, after the pass named ``after``."""

    after: str
    run: Pass


def passes() -> list[tuple[str, Pass]]:
    """Return all passes in order: those of plug-ins follow the one that they name.

    Raises
    ------
    ValueError
        If a plug-in names a pass that does not exist.
    """
    result = list(PASSES)
    for name in plugin.keys("passes"):
        added: GraphPass = plugin.find("passes", name, GraphPass)
        names = [each for each, _ in result]
        if added.after not in names:
            raise ValueError(
                f"the plug-in {plugin.owner_of('passes', name)} puts its pass {name} after "
                f"{added.after}, which is not a pass; {suggestion(added.after, names)}"
            )
        result.insert(names.index(added.after) + 1, (name, added.run))
    return result


def optimize(graph: Graph, observe: Callable[[str, Graph], None]) -> None:
    """Run every pass on the graph in place; ``observe`` is called with it after each.

    Raises ValueError if the graph is not valid before or after the passes. TVMRT_VERIFY_PASSES,
    which tests set, verifies it after each pass as well, and names the pass.
    """
    verify(graph, "import")
    verify_each = os.environ.get("TVMRT_VERIFY_PASSES")
    for name, run in passes():
        with error_context([f"the pass {name}"]):
            run(graph)
        if verify_each:
            verify(graph, name)
        observe(name, graph)
    if not verify_each:
        verify(graph, "the passes")
    for body in loop_bodies(graph):
        expand_composed(body)
        optimize(body, lambda name, graph: None)
        infer_layouts(body)
