"""``tvmrt quantize``: float32 networks become int8 ones, by example inputs."""
