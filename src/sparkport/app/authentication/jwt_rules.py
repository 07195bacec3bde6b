"""What an access token (JWT) has to say to be valid here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JwtRules:
    """Who issues access tokens, for whom, where the keys are, and which claims name it and its roles."""

    issuer: str
    audience: str
    keys: str
    claim: str = "sub"
    roles_claim: str | None = None
