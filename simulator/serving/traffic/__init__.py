"""What arrives at an engine: drawn, recorded and replayed requests."""
