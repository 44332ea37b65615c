"""ethos-u: Arm's Ethos-U in firmware. Regions of bytes become TensorFlow Lite, which Arm's compiler
``vela`` turns into command streams; the C code here hands them to Arm's driver."""

from .device import EthosU

__all__ = ["EthosU"]
