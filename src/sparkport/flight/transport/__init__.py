"""gRPC: connections, calls, limits, and the Flight methods."""
