"""What regions of the device ``cuda`` are made of; the compiler puts these nodes nowhere else."""

from __future__ import annotations

from .contract import Contract
from .custom import KERNEL, TypedByText
from .op import register


@register("custom_cuda")
class CudaKernel(TypedByText):
    """A generated kernel; only in regions.

    ``operator``: for messages; ``source``: the program's text, which the device makes CUDA C++ by
    macros; ``function``: the kernel to run; ``build_options``: the compiler's, separated by blanks;
    ``global_size``, ``local_size``: threads in all and in a block; ``scalar_types``: "int uint
    float" of each scalar parameter, separated by blanks; ``scalars``: their values; ``types``: the
    outputs' types as "float32:1x3x8x8", separated by blanks. Its parameters are a pointer to every
    input that is there, in order, one to every output, then the scalars. Operands are dense.
    """

    contract = Contract("inputs*: any[*]", KERNEL)


@register("custom_cuda_product")
class CudaProduct(TypedByText):
    """Products of float32 matrices by cuBLAS; only in regions.

    ``sizes``: how many products, rows and columns of each, and the length of their sums. ``a`` and
    ``b`` say how the operands lie in the first and the second input: the place of the first
    element, elements from row to row, elements from matrix to matrix, and 1 if rows and columns
    have changed places, else 0. The result is dense; ``types`` has its type as of ``custom_cuda``.
    """

    contract = Contract(
        "inputs*: float32[*]", "sizes: ints 1.., a: ints 0.., b: ints 0.., types: text"
    )
