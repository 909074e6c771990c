"""InferenceGym as an OpenEnv package: ``openenv push`` wants the root of the repository to be one.

Everything is in the ``inferencegym`` package; nothing is imported here, so that tools which meet this file
on their way (pytest, linters) pay nothing.
"""
