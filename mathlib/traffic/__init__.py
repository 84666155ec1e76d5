"""Bytes between devices, and the grids of ranks they travel in."""
