"""Contributions of this plug-in."""

from tvmrt.plugin import Plugin

_HERE = "tvmrt.plugins.onnx_training.operators"
_DOMAIN = "ai.onnx.preview.training"

PLUGIN = Plugin(
    name="onnx_training",
    summary="operators of training: losses, steps of optimisers, derivatives",
    operators={
        ("", "NegativeLogLikelihoodLoss"): f"{_HERE}.training",
        ("", "SoftmaxCrossEntropyLoss"): f"{_HERE}.training",
        (_DOMAIN, "Adagrad"): f"{_HERE}.training",
        (_DOMAIN, "Adam"): f"{_HERE}.training",
        (_DOMAIN, "Gradient"): f"{_HERE}.gradient",
        (_DOMAIN, "Momentum"): f"{_HERE}.training",
    },
)
