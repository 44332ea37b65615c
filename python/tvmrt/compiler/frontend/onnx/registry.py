"""Registry of ONNX operators: (domain, name) to the importer function.

An operator of the IR that declares its ONNX name needs no function, see ``plain_operators``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tvmrt import plugin
from tvmrt.compiler.module_index import ModuleIndex
from tvmrt.compiler.operator_key import domain_of

from .plain_operators import importer_of

if TYPE_CHECKING:
    from tvmrt.compiler.ir import Value

    from .context import NodeContext

Importer = Callable[["NodeContext"], "Value | list[Value]"]

_TABLE: dict[tuple[str, str], Importer] = {}
_MODULES = ModuleIndex("onnx_op", __package__ or "")


def onnx_op(*names: str, domain: str = "") -> Callable[[Importer], Importer]:
    """Decorator: register a function as importer of operators of ``domain`` in all opsets."""

    def add(function: Importer) -> Importer:
        for name in names:
            _TABLE[domain, name] = function
        return function

    return add


def find(domain: str, name: str) -> Importer | None:
    """Return the importer of an operator, or None if it is unknown."""
    key = domain_of(domain), name
    if key not in _TABLE:
        entered = dict(_TABLE)
        _MODULES.load(name)
        _TABLE.update(entered)  # existing entries are kept
    if key not in _TABLE:
        importer = importer_of(*key)
        if importer is None:
            entered = dict(_TABLE)
            for candidate in (key, (key[0], "*")):
                plugin.find("operators", candidate)  # imports the module, which registers them
            _TABLE.update(entered)  # existing entries are kept
            importer = importer_of(*key)  # a plug-in may have defined the operator
        if importer is not None:
            _TABLE.setdefault(key, importer)
    return _TABLE.get(key)


def why_missing(domain: str, name: str) -> str | None:
    """Return why an operator has no importer, if a disabled plug-in has one."""
    for key in ((domain_of(domain), name), (domain_of(domain), "*")):
        if (reason := plugin.why_missing("operators", key)) is not None:
            return reason
    return None
