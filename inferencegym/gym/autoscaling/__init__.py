"""Autoscaling as a gymnasium environment."""
