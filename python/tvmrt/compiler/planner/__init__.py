"""Memory planning: buffer lifetimes, and addresses of buffers in memory pools."""
