"""What microcontrollers compute layers with: shapes, and the kernels of ``kernels/board/``."""
