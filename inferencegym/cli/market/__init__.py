"""`inferencegym market`: episodes, training and duels on the command line."""
