"""The commands that talk to a running server, or look after a machine."""
