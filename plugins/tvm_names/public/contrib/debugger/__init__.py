"""Names of ``tvm.contrib.debugger``."""
