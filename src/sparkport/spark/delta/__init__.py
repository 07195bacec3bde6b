"""What a Delta table says of itself in its log."""
