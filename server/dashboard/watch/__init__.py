"""Watch: an agent or two play an episode."""
