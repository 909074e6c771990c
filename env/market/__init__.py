"""InferenceGym/Market-v0: episode, reward, tasks."""
