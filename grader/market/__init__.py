"""Grades of Market."""
