"""Contributions of this plug-in."""

from tvmrt.plugin import Plugin

_NAMES = (
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
)

PLUGIN = Plugin(
    name="onnx_random",
    summary="operators that draw random numbers",
    operators={("", name): "tvmrt.plugins.onnx_random.operators.random" for name in _NAMES},
)
