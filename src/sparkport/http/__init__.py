"""The HTTP port: health, metrics and the console, on the same catalogs and tokens as the gRPC port."""
