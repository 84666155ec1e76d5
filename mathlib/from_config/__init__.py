"""A model from a config.json as Hugging Face writes it."""

from mathlib.from_config.read import from_config

__all__ = ["from_config"]
