"""The front: Arrow Flight over gRPC."""
