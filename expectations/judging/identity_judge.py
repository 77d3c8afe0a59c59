"""Judging identities: compares the claims of several connections that share one.

Claims may arrive in any order. A rule about what happened accuses as soon as the claims show it. A rule about
what did not happen waits until a claim is settled: by then a claim that clears it would have arrived.

Memory is bounded. A claim that is forgotten to make room counts as undecided for the rules that it concerns
and that have not judged it. Rules that wait accuse nobody of that identity from then on: the forgotten claim
might have cleared them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from decoders.retention import KEPT_FOR
from expectations.identity.claim import OF_CLIENTS, Claim, IdentityKind
from expectations.judging.finding import finding_of
from expectations.judging.identity_state import (
    CLAIM_LIMITS,
    SETTLED_AFTER,
    Group,
    Identities,
    IdentityState,
    KnownClaim,
)
from expectations.judging.outcome import Outcome
from expectations.judging.terms import Terms
from expectations.rules.base.reason import Reason
from expectations.rules.base.rule import IdentityRule, Judgement, Rule, Verdict, undecided


class IdentityJudge:
    """Judges identities by the identity rules of its terms. `claim_limits` bounds what it keeps of each."""

    def __init__(
        self,
        api_names: Mapping[int, str],
        terms: Terms | None = None,
        claim_limits: Mapping[IdentityKind, int] = CLAIM_LIMITS,
    ) -> None:
        self._api_names = api_names
        self._terms = terms or Terms()
        self._claim_limits = claim_limits
        rules = self._rules = [rule for rule in self._terms.rules if isinstance(rule, IdentityRule)]
        self._rules_of = {kind: [rule for rule in rules if rule.judges(kind)] for kind in IdentityKind}
        self._prompt_rules_of = {
            kind: [rule for rule in of_kind if not rule.waits] for kind, of_kind in self._rules_of.items()
        }
        self._patient = {kind for kind in OF_CLIENTS if not self._prompt_rules_of[kind]}

    def process(self, state: Identities, claims: Iterable[Claim]) -> Outcome:
        """Process claims, and accuse where they show an offence."""
        outcome = Outcome()
        for group, added in state.claimed(claims, self._patient):
            if changes := group.new_advertisements(added):
                # The identity of a server is its address.
                listener = self._terms.listener(added[0].identity.name)
                outcome.ranges_changes[listener] += changes
            for forgotten in group.add(added, state.tick, self._claim_limits):
                self._give_up(forgotten, outcome)
            self._judge_group(group, outcome)
        for group in state.surplus():
            for known in group.known:
                self._give_up(known, outcome)
        return outcome

    def tick(self, state: Identities) -> Outcome:
        """Judge the claims that one more interval has settled; forget identities that were long silent."""
        outcome = Outcome()
        if not state.is_settled():
            state.tick += 1
        for group in state.due():
            self._judge_group(group, outcome, settled_by=state.tick - SETTLED_AFTER)
            group.settle(state.tick)
        state.forget_silent(state.clock - KEPT_FOR)
        return outcome

    def finish(self, state: IdentityState) -> Outcome:
        """Judge everything: no further claim will come."""
        outcome = Outcome()
        for group in state.groups.values():
            self._judge_group(group, outcome, settled_by=state.tick)
        return outcome

    def _judge_group(self, group: Group, outcome: Outcome, settled_by: int | None = None) -> None:
        """Judge an identity. Claims whose `changed_tick` is `settled_by` or earlier are settled.

        Without `settled_by` no claim is settled. Rules that wait for later claims are then not asked, and no
        rule is asked about the only claim of a client's identity: one that is not shared breaks none at once.
        """
        kind, is_prompt = group.known[0].claim.identity.kind, settled_by is None
        rules = (self._prompt_rules_of if is_prompt else self._rules_of)[kind]
        if not rules or (is_prompt and kind in OF_CLIENTS and len(group.known) == 1):
            return
        ordered = sorted(group.known, key=lambda known: known.claim.order)
        claims = [known.claim for known in ordered]
        for place, known in enumerate(ordered):
            is_settled = settled_by is not None and known.changed_tick <= settled_by
            asked = [
                rule
                for rule in rules
                if (is_settled or not rule.waits_for(known.claim)) and rule.concerns(known.claim)
            ]
            others = claims[:place] + claims[place + 1 :] if asked else []
            for rule in asked:
                if known.accused.get(rule.id) is not rule.level:
                    judgement = self._judge(rule, known.claim, others, group)
                    self._take(rule, known, judgement, outcome, is_settled=is_settled)

    def _judge(
        self, rule: IdentityRule, claim: Claim, others: Sequence[Claim], group: Group
    ) -> Judgement | None:
        judgement = rule.judge_claim(claim, others)
        if judgement is None or judgement.verdict is not Verdict.VIOLATES:
            return judgement
        is_certain = claim.evidence is not None and not (rule.waits_for(claim) and group.has_forgotten)
        return judgement if is_certain else undecided(Reason.FORGOTTEN)

    def _take(
        self,
        rule: IdentityRule,
        known: KnownClaim,
        judgement: Judgement | None,
        outcome: Outcome,
        *,
        is_settled: bool,
    ) -> None:
        """Accuse once, and again at a higher level; count any other verdict once, when it is settled."""
        if judgement is None:
            return
        if judgement.verdict is Verdict.VIOLATES:
            level = judgement.level or rule.level
            if known.accused.get(rule.id) is not level:
                self._accuse(rule, known, judgement, outcome)
                known.accused[rule.id] = level
        elif is_settled and rule.id not in known.judged and rule.id not in known.accused:
            known.judged.append(rule.id)
            self._count(outcome, rule, judgement, known.claim)

    def _accuse(self, rule: IdentityRule, known: KnownClaim, judgement: Judgement, outcome: Outcome) -> None:
        claim = known.claim
        finding = finding_of(
            rule,
            judgement,
            claim,
            claim,
            api=self._api_names.get(claim.api_key),
            cluster=claim.identity.cluster,
            listener=self._terms.listener(claim.server),
            captured_at=claim.since,
            last_captured_at=claim.since,
            correlation_id=None,
            member_id=claim.member_id,
            group_id=claim.group_id,
        )
        finding = self._terms.decided(finding)
        outcome.count_offence(finding)
        outcome.findings.append(finding)
        if rule.id not in known.accused:
            self._count(outcome, rule, judgement, claim)

    def _give_up(self, known: KnownClaim, outcome: Outcome) -> None:
        for rule in self._rules_of[known.claim.identity.kind]:
            is_open = rule.id not in known.accused and rule.id not in known.judged
            if is_open and rule.concerns(known.claim):
                self._count(outcome, rule, undecided(Reason.FORGOTTEN), known.claim)

    def _count(self, outcome: Outcome, rule: Rule, judgement: Judgement, claim: Claim) -> None:
        outcome.count_identity(rule, judgement, self._terms.listener(claim.server))
        if claim.connection:
            outcome.judged.append((claim.connection, rule.id, str(judgement.ruling)))
