"""Arrow kernels: pure functions on schemas, arrays and batches."""
