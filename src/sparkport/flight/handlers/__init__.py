"""What the server does for each request: plain functions of context, request and value."""
