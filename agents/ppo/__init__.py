"""Proximal policy optimisation: what a network sees, the network, its training."""
