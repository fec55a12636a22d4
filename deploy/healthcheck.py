"""The container's health check: exit 0 if the service is ready, else 1. Needs nothing but Python."""

import os
import sys
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException

TIMEOUT_SECONDS = 7.0  # below the HEALTHCHECK's own limit, so that the reason is printed


def main() -> int:
    """Ask ``/health/ready`` on the loopback; http.client, because urllib would obey a proxy variable."""
    port = int(os.environ.get("READTRACE_PORT", "8000"))
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", "/health/ready")
        status = connection.getresponse().status
    except (OSError, HTTPException) as error:
        print(f"port {port} does not answer: {error}")
        return 1
    if status != HTTPStatus.OK:
        print(f"/health/ready answered {status}, expected 200")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
