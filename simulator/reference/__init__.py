"""The reference engine: every iteration of a scheduler, to judge the fast engine by."""
