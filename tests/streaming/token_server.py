"""A token endpoint of OpenID Connect on loopback: client credentials in, signed tokens out, over TLS."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256

from streaming.broker.ports import HOST

AUDIENCE, ISSUER, KEY_ID = "kafka", "https://login.example", "test"
LIFETIME: Final = 600
_EXPONENT: Final = 65_537


class TokenServer:
    """Serves `url` until `close`. A token's subject is the client ID of who asks with the right secret."""

    def __init__(self, certificate: Path, key: Path, secret: str) -> None:
        self._signing, self._secret = generate_private_key(_EXPONENT, 2048), secret
        self._server = ThreadingHTTPServer((HOST, 0), self._handler())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://{HOST}:{self._server.server_port}/token"
        self._thread = threading.Thread(target=self._server.serve_forever, name="token-server", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def public_keys(self) -> str:
        """Return the key that tokens are verified with, as a JSON Web Key Set."""
        numbers = self._signing.public_key().public_numbers()
        key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": KEY_ID}
        key |= {"n": _encoded(numbers.n.to_bytes(256)), "e": _encoded(numbers.e.to_bytes(3))}
        return json.dumps({"keys": [key]})

    def _token(self, client_id: str, scope: str) -> str:
        now = int(time.time())
        header = {"alg": "RS256", "kid": KEY_ID, "typ": "JWT"}
        claims = {"sub": client_id, "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + LIFETIME}
        parts = (header, claims | {"scope": scope})
        signed = ".".join(_encoded(json.dumps(part).encode()) for part in parts)
        signature = self._signing.sign(signed.encode(), PKCS1v15(), SHA256())
        return f"{signed}.{_encoded(signature)}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        tokens = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                scheme, _, credentials = self.headers["Authorization"].partition(" ")
                client_id, _, secret = base64.b64decode(credentials).decode().partition(":")
                assert scheme == "Basic" and form["grant_type"] == ["client_credentials"]
                if secret != tokens._secret:
                    self._answer(401, {"error": "invalid_client"})
                    return
                token = tokens._token(client_id, form["scope"][0])
                self._answer(200, {"access_token": token, "token_type": "Bearer", "expires_in": LIFETIME})

            def _answer(self, status: int, document: dict[str, object]) -> None:
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (named so in the base class)
                """Log nothing."""

        return Handler


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
