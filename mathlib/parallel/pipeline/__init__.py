"""Pipelines of any schedule, to train with; to be read, see `parallel/plain`."""
