"""What the bytes mean: pure functions between wire forms and values."""
