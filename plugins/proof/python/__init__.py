"""Input of Frama-C for firmware networks: drivers, contracts and a script."""
