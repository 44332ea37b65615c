"""Importers for user-defined operators, including those that replace a built-in operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvmrt.error import UnsupportedError

from .registry import Importer

if TYPE_CHECKING:
    from tvmrt.compiler.ir import Value

    from .context import NodeContext


def custom_importer(record: Any, builtin: Importer | None) -> Importer:
    """Return an importer for nodes of the user-defined operator ``record``.

    ``record`` offers ``add(builder, inputs, attributes, name)`` and the exception
    ``UnsupportedNode`` for nodes that it leaves to the built-in importer.
    """

    def run(ctx: NodeContext) -> Value | list[Value]:
        attributes = {a.name: ctx.attr(a.name) for a in ctx.node.attribute}
        try:
            result = record.add(ctx.builder, ctx.inputs, attributes, ctx.name)
        except record.UnsupportedNode as reason:
            if builtin is None:
                raise UnsupportedError(f"the operator declines the node: {reason}") from reason
            return builtin(ctx)
        except ValueError as problem:
            raise ValueError(f"graph {ctx.builder.graph.name}: {problem}") from problem
        output_count = len(ctx.node.output)
        if output_count > len(result):
            raise ValueError(
                f"graph {ctx.builder.graph.name}: outputs: the operator returns {len(result)}, "
                f"the node has {output_count}"
            )
        return result

    return run
