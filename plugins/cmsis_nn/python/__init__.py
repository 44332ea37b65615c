"""Int8 layers of boards as calls of Arm's CMSIS-NN."""
