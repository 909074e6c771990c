"""Language models as agents: what they read, how they are asked, how their replies are read."""
