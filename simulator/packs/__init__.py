"""Trace packs: measured speeds, memory and prices of a model on a GPU, as tables."""
