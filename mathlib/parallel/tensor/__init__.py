"""Tensor and sequence parallelism: a part of every matrix on every rank."""
