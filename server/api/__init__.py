"""The REST routes: paths, bodies, errors and what explains them."""
