"""Training on many devices, written out."""
