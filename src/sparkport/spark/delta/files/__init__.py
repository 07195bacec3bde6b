"""Data files and deletion vectors that the server reads and writes itself."""
