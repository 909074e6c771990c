"""Benchmarks of the server; ``python -m server.bench`` runs them."""
