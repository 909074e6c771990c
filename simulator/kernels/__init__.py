"""What every environment computes with: compiled copies of plain functions, and random numbers in them."""
