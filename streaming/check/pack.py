"""Checking a rule pack as kipwatch's own rules are checked: its requirements and its cases.

Each case is judged as a whole, frame by frame, and by the automaton as in the query. All must agree.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa

from decoders.frame.columnar.block_reading import BlockReader
from decoders.frame.columnar.block_writing import write_block
from decoders.frame.record import Record
from decoders.schema.registry import default_schemas
from expectations.cases.notation import Case, WrittenExchange, finding_in_words, read_page, verdicts_in_words
from expectations.conversation.columnar.windows import Arrival, ColumnarWindows
from expectations.judging.automaton import LEARNT_AT, Automaton
from expectations.judging.identity_judge import IdentityJudge
from expectations.judging.identity_state import IdentityState
from expectations.judging.judge import Judge
from expectations.judging.terms import Terms
from expectations.report.coverage import coverage_of
from expectations.requirements.table import LEVELS, RequirementTable, demands_of, read_table
from expectations.rules.base.rule import Rule, Verdict
from expectations.rules.catalogue import RULES, rule_named
from expectations.rules.packs import Pack
from streaming.judging.report import Report, checks_of
from streaming.judging.step import BucketStep, identity_report
from streaming.state.bucket import Bucket

WHOLE = 10_000
"""More records than a case has."""
REQUIREMENTS = "requirements.toml"


def cases_of(pack: Pack, rule: Rule) -> list[Case]:
    """Read the cases of a pack's rule. Raises ValueError if its page is missing or a case lacks a part."""
    page = pack.folder / "cases" / f"{rule.id.partition('/')[2].replace('-', '_')}.md"
    if not page.is_file():
        raise ValueError(f"write its cases to {page}")
    return read_page(page, pack.prefix)


def faults_of_pack(pack: Pack) -> Iterator[str]:
    """Yield what is wrong with a pack that could be loaded, each in a line."""
    yield from _faults_of_requirements(pack)
    known = {rule.id for rule in RULES}
    for rule in pack.rules:
        yield from (f"{rule.id} implies {other}, which is no rule" for other in {*rule.implies} - known)
        try:
            cases = cases_of(pack, rule)
        except ValueError as error:
            yield f"{rule.id}: {error}"
            continue
        shown = {word for case in cases for word in case.verdicts.split()}
        for verdict in Verdict:
            if verdict not in shown:
                yield f"{rule.id} has no case that {_IN_WORDS[verdict]}"
        for case in cases:
            yield from (f"{rule.id}, {case.title}: {fault}" for fault in faults_of_case(case))


_IN_WORDS = {
    Verdict.CONFORMS: "conforms",
    Verdict.VIOLATES: "violates it",
    Verdict.UNDECIDED: "is undecided",
}


def _faults_of_requirements(pack: Pack) -> Iterator[str]:
    try:
        table = read_table(pack.folder / REQUIREMENTS)
    except (OSError, msgspec.MsgspecError) as error:
        yield f"{REQUIREMENTS}: {error}"
        return
    unknown = {name for each in table.requirement for name in each.rules} - {rule.id for rule in pack.rules}
    yield from (f"{REQUIREMENTS} names {name}, which is no rule of the pack" for name in sorted(unknown))
    for rule in pack.rules:
        yield from _faults_of_demand(rule, table)


def _faults_of_demand(rule: Rule, table: RequirementTable) -> Iterator[str]:
    demands = demands_of(rule, [table]).get(table.source, set())
    if not demands:
        yield f"{rule.id} judges no requirement of {REQUIREMENTS}"
        return
    highest = max((demand.highest_level for demand in demands), key=LEVELS.index)
    if LEVELS.index(rule.level) > LEVELS.index(highest):
        yield f"{rule.id} is of level {rule.level}, and its requirements make it at most {highest}"


def faults_of_case(case: Case) -> Iterator[str]:
    """Yield in which of the ways a case yields something else than it says, the first of them."""
    try:
        exchange, rules = case.played(WrittenExchange)
    except Exception as error:  # a line may name what does not exist, and a body what no schema has
        yield f"cannot be played: {type(error).__name__}: {error}"
        return
    schemas, terms = default_schemas(), Terms(rules)
    judge, identity_judge = Judge(schemas.api_names, terms), IdentityJudge(schemas.api_names, terms)
    plain = BucketStep(judge, schemas.by_key)
    learning = BucketStep(judge, schemas.by_key, automaton=Automaton(judge, secrets.token_bytes()))
    ways = [("as a whole", WHOLE, plain), ("frame by frame", 1, plain)]
    # The automaton learns a frame at its LEARNT_AT-th repetition, and judges it alone from then on.
    ways += [("by the automaton", WHOLE, learning)] * (LEARNT_AT + 1)
    expected = [case.verdicts, *case.findings]
    for way, size, step in ways:
        reports = list(_judged(exchange.records, size, judge, step, identity_judge))
        yielded = [_verdicts(reports, case.rule), *_findings(reports)]
        if yielded != expected:
            yield f"judged {way}, it yields: {'; '.join(yielded)}. Expected: {'; '.join(expected)}"
            return


def _judged(
    records: Sequence[Record], size: int, judge: Judge, step: BucketStep, identity_judge: IdentityJudge
) -> Iterator[Report]:
    """Judge records in parts of a size, each a block of the frames topic."""
    bucket, identities, schemas = Bucket(), IdentityState(), default_schemas()
    windows, reader = ColumnarWindows(schemas, secrets.token_bytes()), BlockReader(schemas.digest)
    for begin in range(0, len(records), size):
        block = write_block(records[begin : begin + size], schemas.digest)
        (opened,) = reader.read([block])
        arrival = Arrival.of_topic(opened, pa.array(["case"]), pa.array([0]), pa.array([begin]))
        report = step.process(0, bucket, [windows.columns_of(arrival)])
        yield report
        yield identity_report(0, identity_judge.process(identities, report.claims))
    for place in bucket.connections.stored_places():
        state = bucket.connections.take(place)
        yield Report(0, findings=judge.republish(state))
        yield identity_report(0, identity_judge.process(identities, judge.latest_claims(state)))
    yield identity_report(0, identity_judge.finish(identities))


def _verdicts(reports: Sequence[Report], rule: str) -> str:
    rulings = checks_of(reports).get(rule, {})
    checks = {(rule, ruling): count for ruling, count in rulings.items()}
    (row,) = coverage_of(checks, [rule_named(rule)])
    return verdicts_in_words(row)


def _findings(reports: Sequence[Report]) -> list[str]:
    """Return the findings as last published."""
    latest = {finding.id: finding for report in reports for finding in report.findings}
    return sorted(map(finding_in_words, latest.values()))
