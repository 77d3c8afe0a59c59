"""The form of a rule: each fault is told in words, and none is found in a rule that has the form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from expectations.conversation.observation import Observation
from expectations.conversation.own_values import ClientId, Few
from expectations.rules.base.form import faults
from expectations.rules.base.rule import Level, Role, Rule, conforms


class Remembered(msgspec.Struct):
    """A state of everything that a state may hold."""

    client_id: ClientId = ""
    times: Few = 0
    is_first: bool = True
    pending: Observation | None = None
    by_name: dict[str, list[Few]] = {}


class Sound(Rule):
    """Checks that nothing is wrong.

    ## Why it matters
    Each part of a page is read.

    ## Example
    One that has all its parts.

    ## What to do
    Write what somebody would ask.

    ## What it does not cover
    Whether it is true what it says.
    """

    section = "Tests"
    requirement = "A rule has a form."
    needs = "a request of any kind"
    message = "{who} has no form"
    level = Level.VIOLATION
    role = Role.CLIENT
    State = Remembered

    def on_request(self, request: Any, conversation: Any, state: Any) -> Iterator[Any]:
        yield conforms()


class Unmarked(msgspec.Struct):
    times: int = 0


class Unsorted(msgspec.Struct):
    seen: set[str] = set()


class Ambiguous(msgspec.Struct):
    either: dict[str, Few] | list[Few] = []


class Demanding(msgspec.Struct):
    times: Few


def test_a_sound_rule_has_no_fault() -> None:
    assert list(faults(Sound())) == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"needs": ""}, "has needs that do not continue a sentence"),
        ({"requirement": "A form"}, "has a requirement that is no sentence"),
        ({"section": ""}, "has a section that names no place"),
        ({"message": "{0} has no form"}, "has a message with something else than a name in braces"),
        ({"message": "It has no form."}, "has a message that is not one line in lower case without a period"),
        ({"level": "grave"}, "has a level or a role that is none"),
        ({"on_requests": lambda *_: ()}, "has methods that nobody calls: on_requests"),
        ({"__doc__": "Says something.\n" + (Sound.__doc__ or "").partition("\n")[2]}, '"Checks"'),
        (
            {"__doc__": (Sound.__doc__ or "").replace("## Example", "## Examples")},
            "has a page whose headings",
        ),
        ({"__doc__": (Sound.__doc__ or "").replace("One that has", "").replace("all its", "")}, "5 words"),
        ({"__doc__": None}, "has a page that"),
        ({"State": Unmarked}, "in which Unmarked.times needs another type"),
        ({"State": Unsorted}, "in which Unsorted.seen needs another type"),
        ({"State": Ambiguous}, "in which Ambiguous.either needs another type"),
        ({"State": Demanding}, "a field without a default"),
        ({"State": dict}, "has a state that is no msgspec.Struct"),
    ],
)
def test_a_fault_is_told(changes: dict[str, Any], told: str, new: Callable[..., Rule]) -> None:
    assert any(told in fault for fault in faults(new(changes)))


def test_what_a_rule_lacks_is_told(new: Callable[..., Rule]) -> None:
    class Bare(Rule):
        pass

    assert list(faults(Bare())) == ["has no section, requirement, needs, message, level, role"]


@pytest.fixture
def new() -> Callable[..., Rule]:
    return lambda changes: type(
        "Changed", (Sound,), {"__module__": __name__, "__doc__": Sound.__doc__, **changes}
    )()
