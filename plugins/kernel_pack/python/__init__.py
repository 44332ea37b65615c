"""Networks from a library of kernels that is part of the package, without a C compiler."""
