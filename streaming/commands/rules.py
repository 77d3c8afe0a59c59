"""`kipwatch rules`: list all rules or those of a family, or show one rule's page."""

from __future__ import annotations

import argparse
import json

from rich.console import Console
from rich.markdown import Markdown
from rich.padding import Padding
from rich.text import Text

from expectations.rules.base.rule import Rule
from expectations.rules.catalogue import READINGS, RULES, rule_named
from streaming.probe.duties import exercises
from streaming.user_error import UserError, did_you_mean


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "id",
        nargs="?",
        metavar="ID",
        help="the ID of a rule, such as kip1313/instance-id-zero, or a family such as kip35",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON array")


def run(arguments: argparse.Namespace) -> int:
    """List the rules, or explain one."""
    family = [rule for rule in RULES if arguments.id in (None, rule.family)]
    rules = family or [_find(arguments.id)]
    if arguments.json:
        print(json.dumps([_described(rule) for rule in rules], indent=2))
    elif not family:
        _explain(rules[0])
    else:
        _list(rules)
    return 0


def _find(rule_id: str) -> Rule:
    try:
        return rule_named(rule_id)
    except KeyError:
        names = [rule.id for rule in RULES] + sorted({rule.family for rule in RULES})
        hint = did_you_mean(rule_id, names, "`kipwatch rules` lists them", cutoff=0.8)
        raise UserError(f"there is no rule {rule_id!r}; {hint}") from None


def _described(rule: Rule) -> dict[str, object]:
    names = ("id", "kip", "section", "level", "role", "spec", "requirement", "message", "summary", "page")
    described: dict[str, object] = {name: str(getattr(rule, name)) for name in names}
    return described | {"readings": _readings(rule), "implies": rule.implies}


def _readings(rule: Rule) -> list[str]:
    """Return the readings of the rule's KIP that `check --spec` accepts."""
    return [str(reading) for reading in READINGS.get(rule.family, ())]


def _list(rules: list[Rule]) -> None:
    console = Console()
    for rule in rules:
        console.print(Text.assemble((rule.id, "bold"), (f"  {rule.level}, at fault: {rule.role}", "dim")))
        console.print(Padding(Text(rule.summary), (0, 0, 0, 4), expand=False))


def _explain(rule: Rule) -> None:
    heading = f"# {rule.id}\n\n*{rule.level}, at fault: {rule.role}. {rule.kip}, {rule.section}.*\n\n"
    requirement = f"> {rule.requirement}\n\n"
    message = f"\n\n## What a finding says\n`{rule.message}`\n"
    readings = ", ".join(f"`--spec {rule.family}={reading}`" for reading in _readings(rule)[1:])
    chosen = (
        f"\nBy default the KIP is read as released Kafka implements it; see also {readings}.\n"
        if readings
        else ""
    )
    needed = f"\n\n## What exercises it\n{_sentence(rule.needs)}"
    needed += "".join(f"\n\n    {command}" for command in exercises(rule))
    Console().print(Markdown(heading + requirement + rule.page + needed + message + chosen))


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
