"""Agents that play Autoscaling."""
