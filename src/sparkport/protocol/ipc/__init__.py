"""Arrow IPC messages on the wire: framing, and checks before Arrow reads them."""
