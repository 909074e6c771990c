"""A market for GPU time."""
