"""TensorFlow Lite: importer, network description and comparison with LiteRT."""
