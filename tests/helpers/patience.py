"""How long a test waits for what must happen: a hang alone takes as long on a busy machine."""

PATIENCE = 600  # seconds
