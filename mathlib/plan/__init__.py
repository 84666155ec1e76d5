"""What a whole run costs."""
