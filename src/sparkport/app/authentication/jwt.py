"""Who may call, by access tokens (JWT) of an issuer such as an OpenID provider."""

from __future__ import annotations

import jwt

from sparkport.app.authentication.credential_file import RESERVED_NAMES
from sparkport.app.authentication.jwt_keys import KeySource
from sparkport.app.authentication.jwt_rules import JwtRules
from sparkport.catalog.principal import Principal, WayIn
from sparkport.errors import UnauthenticatedError
from sparkport.flight.transport.auth import Authenticator, Revocable, token

# Strangers choose the bytes: JSON may be nested too deeply, and text may not be text.
_MALFORMED = (jwt.PyJWTError, ValueError, TypeError, RecursionError)
_LEEWAY_SECONDS = 60  # clocks differ
_MAX_NAME = 200


class JwtAuthenticator(Authenticator, Revocable):
    """Checks access tokens; what does not look like one is for another authenticator."""

    def __init__(self, rules: JwtRules, keys: KeySource, other: Authenticator) -> None:
        self._rules = rules
        self._keys = keys
        self._other = other

    def authenticate(self, authorization: str | None) -> str:
        """Return the principal that the token names. Raises UnauthenticatedError."""
        given = token(authorization or "")
        try:
            header = jwt.get_unverified_header(given)
        except _MALFORMED:
            return self._other.authenticate(authorization)
        claims = self._claims(given, header.get("kid"))
        return Principal(self._name(claims), self._roles(claims), WayIn.JWT)

    def still_admits(self, principal: str, authorization: str) -> bool:
        """Return whether the token has not expired, and its key is still known."""
        try:
            return self.authenticate(authorization) == principal
        except UnauthenticatedError:
            return False

    def _claims(self, given: bytes, key_id: str | None) -> dict[str, object]:
        found = self._keys.find(key_id)
        try:
            claims: dict[str, object] = jwt.decode(
                given,
                found.key,
                algorithms=list(found.algorithms),
                issuer=self._rules.issuer,
                audience=self._rules.audience,
                leeway=_LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", self._rules.claim]},
            )
        except jwt.ExpiredSignatureError:
            raise UnauthenticatedError("the access token has expired; ask the issuer for a new one") from None
        except _MALFORMED as error:
            # The type alone: it says what is wrong, and the text may have parts of the token in it.
            reason = type(error).__name__
            raise UnauthenticatedError(f"the access token is not valid ({reason})") from None
        return claims

    def _roles(self, claims: dict[str, object]) -> list[str]:
        """Return the roles of a claim, which may be inside others, as in `realm_access.roles`."""
        value: object = claims if self._rules.roles_claim else ()
        for part in (self._rules.roles_claim or "").split("."):
            value = value.get(part, ()) if isinstance(value, dict) else ()
        if isinstance(value, str):
            return value.split()
        return [role for role in value if isinstance(role, str)] if isinstance(value, list) else []

    def _name(self, claims: dict[str, object]) -> str:
        name = claims[self._rules.claim]
        if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= _MAX_NAME:
            raise UnauthenticatedError(f"the access token has no name in its claim '{self._rules.claim}'")
        if name in RESERVED_NAMES:
            raise UnauthenticatedError(f"'{name}' is the name of the server's own callers")
        return name
