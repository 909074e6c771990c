"""What is worth seeing of each environment: one module each, named by ``EnvSpec.view``."""
