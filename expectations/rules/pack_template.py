"""The files of a new rule pack: a rule that works, with its page, its requirement and its cases.

The example counts, so it shows what a rule may remember and when it cannot decide.
"""

from __future__ import annotations

from typing import Final

from expectations.rules.base.rule import PACK
from expectations.rules.packs import GROUP


def pack_files(prefix: str, offence: str) -> dict[str, str]:
    """Return the files of a pack with one rule by their paths. `offence` is the second part of its ID."""
    module = offence.replace("-", "_")
    words = {
        "group": GROUP,
        "prefix": prefix,
        "package": f"{PACK}{prefix}",
        "id": f"{prefix}/{offence}",
        "class": "".join(word.capitalize() for word in offence.split("-")),
    }
    paths = {
        "pyproject.toml": _PROJECT,
        f"{PACK}{prefix}/__init__.py": _PACKAGE,
        f"{PACK}{prefix}/{module}.py": _RULE,
        f"{PACK}{prefix}/requirements.toml": _SOURCE,
        f"{PACK}{prefix}/cases/{module}.md": _CASES,
    }
    return {path: _filled(text, words) for path, text in paths.items()}


def requirement(prefix: str, offence: str) -> str:
    """Return what is added to the requirements of a pack for a rule."""
    return _filled(_REQUIREMENT, {"id": f"{prefix}/{offence}"})


def _filled(text: str, words: dict[str, str]) -> str:
    for name, word in words.items():
        text = text.replace(f"@{name}@", word)
    return text


_PROJECT: Final = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "kipwatch-@prefix@"
version = "0.1.0"

[project.entry-points."@group@"]
@prefix@ = "@package@"
"""

_PACKAGE: Final = '''\
"""Rules of kipwatch whose IDs begin with @prefix@/."""

RUNBOOK = "https://wiki.example/kafka-rules"
"""The address of the rules' pages. A finding adds # and the ID of its rule without the slash."""
'''

_SOURCE: Final = """\
source = "@prefix@"
"""

_REQUIREMENT: Final = """
[[requirement]]
section = "Clients, Connections"
says = "A client asks for the supported versions twice at most on a connection."
rules = ["@id@"]
"""

_RULE: Final = '''\
"""@id@."""

from __future__ import annotations

import msgspec

from decoders.protocol import API_VERSIONS
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.conversation.own_values import Few
from expectations.rules.base.reason import why_incomplete
from expectations.rules.base.rule import Judgements, Level, Role, Rule, conforms, undecided, violates

MOST = 2
"""A broker may refuse the first version that a client tries."""


class Asked(msgspec.Struct, omit_defaults=True):
    """How often the connection has asked, up to MOST: a state that stays small is shared by connections."""

    times: Few = 0


class @class@(Rule):
    """Checks that a connection asks for the supported versions twice at most.

    ## Why it matters
    A client that asks again and again is usually a health check that was left in a loop.

    ## Example
    `ApiVersions v4` every second on one connection.

    ## What to do
    Ask once, when the connection opens, and keep the answer.

    ## What it does not cover
    Requests that were not seen: on a connection that was joined midway the first two are undecided.
    """

    section = "Clients, Connections"
    requirement = "A client asks for the supported versions twice at most on a connection."
    needs = "an ApiVersions request"
    message = "{api} was asked for more than {most} times on one connection"
    level = Level.IMPROVEMENT
    role = Role.CLIENT
    apis = frozenset({API_VERSIONS})
    State = Asked

    def on_request(self, request: Observation, conversation: Conversation, state: Asked) -> Judgements:
        """Count requests. `request.count` equal ones may come folded."""
        allowed = min(request.count, MOST - state.times)
        state.times += allowed
        if allowed and conversation.unbroken:
            yield conforms(allowed)
        elif allowed:
            yield undecided(why_incomplete(conversation), allowed)
        if request.count > allowed:
            yield violates(
                request.count - allowed,
                expected=f"{MOST} requests at most",
                observed="one more",
                context={"most": str(MOST)},
            )
'''

_CASES: Final = """\
# The supported versions, asked for again and again

## Once more than twice

```exchange
client > ApiVersions v3 {clientSoftwareName: tester, clientSoftwareVersion: "1"}
broker < ApiVersions advertised
client > ApiVersions v3 {clientSoftwareName: tester, clientSoftwareVersion: "1"}
broker < ApiVersions advertised
client > ApiVersions v3 {clientSoftwareName: tester, clientSoftwareVersion: "1"}
broker < ApiVersions advertised
```

```expected
conforms 2, violates 1
improvement @id@: ApiVersions was asked for more than 2 times on one connection
```

## Once

```exchange
client > ApiVersions v3 {clientSoftwareName: tester, clientSoftwareVersion: "1"}
broker < ApiVersions advertised
```

```expected
conforms 1
```

## Once on a connection that was joined midway

What was asked before was not seen.

```exchange
joined mid-stream
client > ApiVersions v3 {clientSoftwareName: tester, clientSoftwareVersion: "1"}
broker < ApiVersions advertised
```

```expected
undecided 1 (joined-midway)
```
"""
