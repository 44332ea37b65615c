"""Memory planning: buffer lifetimes, and addresses of buffers in memory pools."""

from .arena import Interval, assign_offsets, liveness_bound
from .plan import live_bytes_of_steps, plan_program, share_memory
from .pools import place_in_pools
from .run_plan import place_in_sequence

__all__ = [
    "Interval",
    "assign_offsets",
    "live_bytes_of_steps",
    "liveness_bound",
    "place_in_pools",
    "place_in_sequence",
    "plan_program",
    "share_memory",
]
