"""What a real run does, counted while it runs."""
