"""What microcontrollers compute layers with: their shapes, and the kernels ``micro_*.h``."""
