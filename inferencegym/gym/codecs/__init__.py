"""Codecs of the environments, found by name: see :mod:`inferencegym.gym.codec`."""
