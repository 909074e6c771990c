"""InferenceGym/Serving-v0: episode, reward, tasks."""
