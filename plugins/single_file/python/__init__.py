"""Networks as two C files: ``net.c`` and ``net.h``."""
