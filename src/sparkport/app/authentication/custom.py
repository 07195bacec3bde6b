"""Who may call, as a user of the package decides it."""

from __future__ import annotations

import structlog

from sparkport.catalog.principal import Principal, WayIn
from sparkport.errors import UnauthenticatedError
from sparkport.flight.transport.auth import Authenticator

_log = structlog.get_logger("sparkport")


class CustomAuthenticator(Authenticator):
    """Calls the user's authenticator, and refuses the call if it fails in any way.

    What went wrong is for the operator: it is logged, and the client sees a plain refusal.
    """

    def __init__(self, authenticator: Authenticator) -> None:
        if not callable(getattr(authenticator, "authenticate", None)):
            raise TypeError("an authenticator has a method authenticate(authorization) that returns a name")
        self._authenticator = authenticator

    def authenticate(self, authorization: str | None) -> str:
        """Return the principal that the authenticator names. Raises UnauthenticatedError."""
        try:
            principal = self._authenticator.authenticate(authorization)
        except UnauthenticatedError:
            raise
        except Exception as error:  # noqa: BLE001  (whatever it is, the caller stays out)
            # The type alone: the text may have the header in it, which is a secret.
            _log.error("authenticator failed", error=type(error).__name__)
            raise UnauthenticatedError("the credentials could not be checked; see the server's log") from None
        if not _is_name(principal):
            _log.error("authenticator returned no principal", type=type(principal).__name__)
            raise UnauthenticatedError("the credentials could not be checked; see the server's log")
        if isinstance(principal, Principal):
            return principal
        return Principal(principal, way_in=WayIn.CUSTOM)


def _is_name(principal: object) -> bool:
    return isinstance(principal, str) and bool(principal)
