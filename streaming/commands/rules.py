"""`kipwatch rules`: list all rules or those of a family, show one rule's page, check or begin a rule pack."""

from __future__ import annotations

import argparse
import json
import re
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown
from rich.padding import Padding
from rich.text import Text

from expectations.report.terminal import counted
from expectations.rules.base.rule import Rule
from expectations.rules.catalogue import PACKS, READINGS, RULES, rule_named
from expectations.rules.pack_template import pack_files, requirement
from expectations.rules.packs import PREFIX
from streaming.probe.duties import exercises
from streaming.user_error import UserError, did_you_mean


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "id",
        nargs="?",
        metavar="ID",
        help="the ID of a rule, such as kip1313/instance-id-zero, or a family such as kip35; or `new`",
    )
    parser.add_argument(
        "new", nargs="?", metavar="PREFIX/NAME", help="after `new`: the ID of a rule to begin"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON array")
    parser.add_argument("--check", metavar="PREFIX", help="check an installed rule pack as our own rules are")


def run(arguments: argparse.Namespace) -> int:
    """List the rules, explain one, or check or begin a rule pack."""
    if arguments.check:
        return _check(arguments.check)
    if arguments.id == "new":
        return _begin(arguments.new or "")
    if arguments.new:
        raise UserError(f"name one rule or family: {arguments.new!r} is too much")
    family = [rule for rule in RULES if arguments.id in (None, rule.family)]
    rules = family or [_find(arguments.id)]
    if arguments.json:
        print(json.dumps([_described(rule) for rule in rules], indent=2))
    elif not family:
        _explain(rules[0])
    else:
        _list(rules)
    return 0


def _check(prefix: str) -> int:
    """Print what is wrong with a pack, a line each. Returns 1 if there is anything."""
    pack = next((pack for pack in PACKS if pack.prefix == prefix), None)
    if pack is None:
        hint = did_you_mean(prefix, [each.prefix for each in PACKS], "install it: pip install FOLDER")
        raise UserError(f"there is no rule pack {prefix!r}; {hint}")
    if find_spec("ruamel") is None:
        raise UserError("cases need the extra [audit]: pip install 'kipwatch[audit]'")
    from streaming.check.pack import faults_of_pack  # noqa: PLC0415  # of the extra

    faults = list(faults_of_pack(pack))
    for fault in faults:
        print(fault)
    if not faults:
        print(f"{prefix}: {counted(len(pack.rules), 'rule')}, with page, requirement and cases")
    return 1 if faults else 0


def _begin(rule_id: str) -> int:
    """Write the files of a rule, and those of its pack that are not there. Raises UserError."""
    prefix, _, offence = rule_id.partition("/")
    if not PREFIX.fullmatch(prefix) or not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", offence):
        raise UserError(f"{rule_id!r} is no ID; write one such as acme/team-unknown")
    folder = Path(f"kipwatch-{prefix}")
    files = {folder / path: text for path, text in pack_files(prefix, offence).items()}
    rule, _, cases = list(files)[2:]
    if rule.exists() or cases.exists():
        raise UserError(f"{rule if rule.exists() else cases} is there already")
    requirements = next(path for path in files if path.suffix == ".toml" and path.parent != folder)
    try:
        for path, text in files.items():
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
                print(path)
        with requirements.open("a") as table:
            table.write(requirement(prefix, offence))
    except OSError as error:
        raise UserError(f"cannot write into {folder}: {error.strerror}") from error
    print(f"pip install --editable ./{folder} && kipwatch rules --check {prefix}")
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
