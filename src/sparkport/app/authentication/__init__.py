"""Authenticate callers: by token list, password or access token (JWT), or by the user's own authenticator."""
