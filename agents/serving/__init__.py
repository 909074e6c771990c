"""Agents that play Serving."""
