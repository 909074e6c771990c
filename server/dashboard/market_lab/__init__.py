"""The tab Market lab: duels of pricing policies with surges and shocks, and a visitor's own training."""
