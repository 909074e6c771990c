"""Agents that play Market, and their training."""
