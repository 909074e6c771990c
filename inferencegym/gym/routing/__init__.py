"""Routing as a gymnasium environment."""
