"""What the server does for each request: plain functions of site, request and value."""
