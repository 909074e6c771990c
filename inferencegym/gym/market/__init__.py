"""Market as a gymnasium environment."""
