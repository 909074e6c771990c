"""Grades of Serving, and the search for what scores 0 and 1."""
