"""ZeRO in three stages, and MiCS, to train with; to be read, see `parallel/plain`."""
