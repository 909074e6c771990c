"""Agents beside each other on the same seeds: episodes, tables, committed results."""
