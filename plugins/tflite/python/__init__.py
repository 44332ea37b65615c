"""TensorFlow Lite files: to graphs, and what commands say of them."""
