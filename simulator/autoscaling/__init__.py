"""A fleet of replicas that are started, served with traffic, and lost."""
