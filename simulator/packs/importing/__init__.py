"""Packs from load tests of one's own: what they mean, what is fitted, a report."""
