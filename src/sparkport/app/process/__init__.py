"""Settings of the server's own process: memory, open files, logs, arguments."""
