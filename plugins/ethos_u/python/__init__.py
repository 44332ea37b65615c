"""Regions for Arm's Ethos-U processors, compiled by Vela."""
