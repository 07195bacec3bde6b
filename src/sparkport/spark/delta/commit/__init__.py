"""Write commits to the log of a Delta table."""
