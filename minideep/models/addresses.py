"""Addresses of servers: what may be a `base_url`, and what it holds besides the address."""

import re
from urllib.parse import unquote, urlsplit, urlunsplit

from ..errors import ConfigError
from ..kinds import shown


def address(url: str) -> str:
    """Return *url* without blanks around it and slashes behind it, or "" if it is not an address of HTTP."""
    url = url.strip().rstrip("/")
    try:
        parts = urlsplit(url)
        return url if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 else ""
    except ValueError:
        return ""


def checked_address(url: str, owner: str) -> str:
    """Return *url* as `address` does.

    Raises:
        ConfigError: it is no address. Without an "@" it is quoted; with one it may hold a password.
    """
    if found := address(url):
        return found
    given = "" if "@" in url else f", not {shown(url)}"
    meant = f"; write 'http://{url.strip()}'" if given and address(f"http://{url}") and ":/" not in url else ""
    raise ConfigError(f"{owner}: base_url must be an address such as 'http://127.0.0.1:8000/v1'{given}{meant}")


def without_login(url: str) -> tuple[str, str]:
    """Return *url* without the name and the password in it, and these two as `name:password`, or ""."""
    parts = urlsplit(url)
    login, found, place = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=place)), unquote(login) if found else ""


def other_address(base_url: str, path: str) -> str:
    """Return the *base_url* that is probably meant if nothing is at its *path*, and why, or ""."""
    if path.startswith("/v1/") and base_url.endswith("/v1"):
        return f"the SDK adds /v1 itself: write base_url={base_url.removesuffix('/v1')!r}"
    if not path.startswith("/v1/") and not urlsplit(base_url).path:
        return f"most servers have the API below /v1: write base_url={base_url + '/v1'!r}"
    return ""


def loopback_host(url: str) -> str:
    """Return the host of *url* as an address, if it is this machine for certain, else "". No name is looked up."""
    host = urlsplit(url).hostname or ""
    known = {"localhost": "127.0.0.1", "::1": "::1"}
    return host if re.fullmatch(r"127(\.\d{1,3}){3}", host) else known.get(host, "")
