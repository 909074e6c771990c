"""Grades of Autoscaling."""
