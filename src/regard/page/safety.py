"""Checks of every request, before any other code sees it.

The server answers to this machine's browser only: the Host header must be an address of the server (a page
of another site that makes its own name point here has another Host), the Origin must be the same, and the
cookie must hold the token of this start.
"""

import hmac
import ipaddress
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from typing import Any, final
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST = 2_000_000  # bytes of a request
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@final
class Guard:
    """ASGI middleware: refuses requests from elsewhere, and adds the headers of safety to each answer."""

    def __init__(self, app: ASGIApp, token: str, port: int, hosts: Iterable[str] = ()):
        self._app, self._token, self._port = app, token, port
        self._hosts = {"localhost", *hosts}
        self._cookie = f"regard_lab_{port}"  # cookies do not depend on the port: each lab has its own

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        entering = self._same(parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0])
        refusal = self._refusal(scope, headers, entering)
        enters = entering and scope["path"] == "/"
        sending = _with_headers(send, self._set_cookie() if enters and refusal is None else None)
        if refusal is not None:
            await _answer(sending, *refusal)
            return
        await self._app(scope, _bounded(receive), sending)

    def _refusal(self, scope: Scope, headers: dict[str, str], entering: bool) -> tuple[int, str] | None:
        """Return the status and the reason if the request is refused."""
        host = headers.get("host", "")
        if not self._own_host(host):
            return 421, "this address is not the lab's; open the address that `regard lab` printed"
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            return 403, "another site may not ask the lab"
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return 405, "the lab knows GET and POST only"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not (
            scope["path"] == "/" and headers.get("sec-fetch-mode") == "navigate"
        ):
            return 403, "another site may not ask the lab"
        if not entering and not self._same(self._cookie_value(headers.get("cookie", ""))):
            return 401, (
                "this lab was started again, or its address is not complete; "
                "open the whole address that `regard lab` printed"
            )
        if scope["method"] == "POST":
            if origin is None:
                return 403, "a question needs the Origin header"
            if headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
                return 415, "questions are JSON (content type application/json)"
            length = headers.get("content-length", "")
            if not length.isdigit() or int(length) > LARGEST:
                return 413, f"a question has at most {LARGEST:,} bytes, and says how many"
        return None

    def _own_host(self, host: str) -> bool:
        """Whether the Host header names an address (no name service can move those) or a name of our own."""
        name, _, port = host.rpartition(":")
        if port != str(self._port):
            return False
        if name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True

    def _same(self, token: str) -> bool:
        """Compare in constant time."""
        return hmac.compare_digest(token.encode(), self._token.encode())

    def _cookie_value(self, header: str) -> str:
        try:
            morsel = SimpleCookie(header).get(self._cookie)
        except CookieError:
            return ""
        return "" if morsel is None else morsel.value

    def _set_cookie(self) -> str:
        return f"{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict"


def _with_headers(send: Send, cookie: str | None) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            added = HEADERS if cookie is None else {**HEADERS, "set-cookie": cookie}
            named = [(name.encode(), value.encode()) for name, value in added.items()]
            message = {**message, "headers": [*message.get("headers", ()), *named]}
        await send(message)

    return sending


def _bounded(receive: Receive) -> Receive:
    """Receive at most LARGEST bytes, whatever the header says."""
    got = 0

    async def receiving() -> Message:
        nonlocal got
        message: dict[str, Any] = dict(await receive())
        got += len(message.get("body", b""))
        return {"type": "http.disconnect"} if got > LARGEST else message

    return receiving


async def _answer(send: Send, status: int, reason: str) -> None:
    start = {"type": "http.response.start", "status": status}
    await send({**start, "headers": [(b"content-type", b"text/plain; charset=utf-8")]})
    await send({"type": "http.response.body", "body": f"regard lab: {reason}\n".encode()})
