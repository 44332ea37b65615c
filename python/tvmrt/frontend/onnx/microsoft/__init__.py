"""Operators of the domain ``com.microsoft``, as onnxruntime's optimiser and quantiser write them.

Each module has a row for every operator, its contract; a node is compared with it, for the onnx
package knows nothing of these.
"""

from importlib import import_module

FAMILIES = (
    "activation",
    "attention",
    "group_query",
    "rotary",
    "normalization",
    "embedding",
    "products",
    "convolution",
    "quantized",
    "recurrent",
    "blocks",
    "plain",
    "refused",
)

for _family in FAMILIES:
    import_module(f"{__name__}.{_family}")
