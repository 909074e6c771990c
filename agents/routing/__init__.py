"""Agents that play Routing."""
