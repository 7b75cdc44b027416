"""Many tasks at once: metrics, baselines, methods by name, and the runner."""
