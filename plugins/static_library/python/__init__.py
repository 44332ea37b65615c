"""Networks as static libraries with the header of TVM's C interface."""
