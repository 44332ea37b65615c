"""Training operators: losses, optimiser steps, gradients."""
