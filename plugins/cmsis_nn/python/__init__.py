"""Int8 layers of boards by calls of Arm's CMSIS-NN."""
