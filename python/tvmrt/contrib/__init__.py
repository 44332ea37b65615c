"""Names of ``tvm.contrib`` that deployment code uses."""
