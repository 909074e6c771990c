"""The name by which documents know :mod:`env.serving.episode`; nothing else imports this."""

from env.serving.episode import InferenceEnv

__all__ = ["InferenceEnv"]
