"""kip511/software-version-malformed."""

from __future__ import annotations

from expectations.conversation.negotiation import Asked
from expectations.rules.base.negotiation_rule import ClaimRule
from expectations.rules.base.rule import Judgement, Level, Role
from expectations.rules.kip_511._software_pattern import judge_text


class SoftwareVersionMalformed(ClaimRule):
    """Checks that the client software version in ApiVersions is one the broker can take.

    ## Why it matters
    The broker returns INVALID_REQUEST and the client cannot connect; a broker that takes the version
    makes it part of a metric's name.

    ## Example
    `ApiVersions v3, client software version "2.1 (build 7)"`

    ## What to do
    Use letters, digits, dots and hyphens only, with a letter or digit at both ends.

    ## What it does not cover
    A version of ApiVersions that the broker does not support: it never reads the field. So a request
    is judged once the broker has responded in its version, or when the version was advertised before.
    The KIP's text also allows a dot or hyphen at the ends; released Kafka does not, and the finding
    says when the two readings differ.
    """

    section = "Proposed Changes, Validation"
    requirement = "The client software version matches the pattern that the broker validates it with."
    needs = "an ApiVersions request of version 3 or newer"
    message = 'the client software version "{text}" is malformed ({readings})'
    level = Level.VIOLATION
    role = Role.CLIENT

    def judge_claim(self, asked: Asked) -> Judgement:
        """Compare the version with the pattern of the reading."""
        return judge_text(asked.claim.version, asked, self.spec)
