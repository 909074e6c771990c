"""InferenceGym/Routing-v0: episode, reward, tasks."""
