"""Real runs on torch: the only room that imports it."""
