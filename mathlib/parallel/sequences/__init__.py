"""Sequences that are cut over ranks: ring attention, Ulysses, and both; see `parallel/plain`."""
