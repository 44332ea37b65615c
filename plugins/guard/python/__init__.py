"""Checks of weights and tensors of firmware networks against changes in memory."""
