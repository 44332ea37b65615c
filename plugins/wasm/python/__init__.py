"""Networks as WebAssembly modules with a loader in JavaScript."""
