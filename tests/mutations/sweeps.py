"""Every version of every API in a clean conversation of its own, and the list of all clean ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tests.mutations.bodies import MEMBER_ID, TELEMETRY_APIS
from tests.mutations.clean import KINDS, api_named, ask, negotiate, new, newest, script, versions_of
from tests.mutations.script import SCHEMAS, Ask, Script


def every_api_version() -> Iterator[Script]:
    """Each version of each API on a connection of its own, between two requests of the same kind."""
    for api in SCHEMAS.apis:
        if api.name in ("ApiVersions", "SaslHandshake") or not api.versions:
            continue
        for version in versions_of(api):
            first, beside = (6, new) if version == api.versions.highest else (4, older)
            steps = [negotiate(first), ask(api.name, version), beside("Metadata")]
            yield focused(script(f"{api.name} v{version}", *steps), 1)


def older(name: str) -> Ask:
    return ask(name, newest(name) - 1)


def every_first_request() -> Iterator[Script]:
    """The version of each API that is on header v3 as a connection's first request."""
    for api in SCHEMAS.apis:
        if api.versions and api.name not in ("ApiVersions", "SaslHandshake"):
            first = dataclasses.replace(new(api.name), client_id="app")
            yield focused(script(f"{api.name} first", first, new("Metadata")), 0)


def every_older_version() -> Iterator[Script]:
    """Each version on an older header, on a connection that uses header v3 without being bound to an ID."""
    for api in SCHEMAS.apis:
        for version in versions_of(api)[:-1] if api.name != "SaslHandshake" else ():
            own = {"clientInstanceId": MEMBER_ID} if api.name in TELEMETRY_APIS else {}
            steps = [negotiate(4), new("Metadata"), ask(api.name, version, **own)]
            yield focused(script(f"{api.name} v{version} beside header v3", *steps), 2)


def focused(whole: Script, place: int) -> Script:
    """A script of which mutators break only one step."""
    return dataclasses.replace(whole, focus=place)


def every_negotiation() -> Iterator[Script]:
    """Each version of ApiVersions, asked twice."""
    for version in versions_of(api_named("ApiVersions")):
        again = ask("ApiVersions", version)
        yield script(f"ApiVersions v{version}", negotiate(version), again)


SWEEPS = (
    *every_negotiation(),
    *every_api_version(),
    *every_first_request(),
    *every_older_version(),
)
"""Clean conversations that differ in the version of one request."""
CLEAN = (*KINDS, *SWEEPS)
"""Every clean conversation."""
