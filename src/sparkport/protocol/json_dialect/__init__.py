"""The JSON dialect: request bodies of clients without a driver."""
