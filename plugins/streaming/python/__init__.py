"""Networks over a window of a stream, computed hop by hop with the same results."""
