"""InferenceGym/Autoscaling-v0: episode, reward, tasks."""
