"""Memory planning: lifetimes of a program's buffers, and their places in one arena."""

from .arena import Interval, liveness_bound, place
from .plan import plan_program

__all__ = ["Interval", "liveness_bound", "place", "plan_program"]
