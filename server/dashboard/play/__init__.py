"""The tab Play: a person's episode, the knobs made from the action's schema, and what happened in words."""
