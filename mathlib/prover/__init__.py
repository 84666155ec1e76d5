"""Is a layout right? One training step on whole numbers modulo a prime, over simulated ranks."""
