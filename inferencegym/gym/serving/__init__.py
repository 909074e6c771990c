"""Serving as a gymnasium environment."""
