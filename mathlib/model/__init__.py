"""The one small GPT of all runs, its data, and what trains it."""
