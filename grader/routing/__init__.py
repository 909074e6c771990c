"""Grades of Routing."""
