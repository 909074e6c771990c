"""The page for people at /web: watch agents, play oneself, compare, run two markets, connect."""
