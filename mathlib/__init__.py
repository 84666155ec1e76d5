"""The arithmetic of training transformers: formulas, real runs, pictures."""

__version__ = "0.1.0"
