"""A stream of queries over small and large models, caches and a grid with its carbon."""
