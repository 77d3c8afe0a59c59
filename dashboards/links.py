"""Links of alerts and dashboards: to dashboards in Grafana and to sections of the runbook.

Alerts need whole addresses. The committed ones are those of the stack in `deploy/compose.yaml` and, for the
runbook, paths in this repository. `python -m dashboards.build` writes others on request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CONFORMANCE, CLIENTS, RULE, PIPELINE = (
    "kipwatch-conformance",
    "kipwatch-clients",
    "kipwatch-rule",
    "kipwatch-pipeline",
)
UPGRADE, GROUPS, BROKERS, CLIENT = (
    "kipwatch-upgrade",
    "kipwatch-groups",
    "kipwatch-brokers",
    "kipwatch-client",
)
"""The identifiers of dashboards, which are part of their addresses."""
KEPT = "${__url_time_range}&${datasource:queryparam}&${job:queryparam}"
"""What links between dashboards keep: time range, data source and job."""
CHOSEN = "${cluster:queryparam}&${owner:queryparam}"
"""What links to offences keep, too."""
SUBJECT = "subject"
"""The label of an alert's row that holds the dashboard of what it is about."""
PAGE = "page"
"""The label of a table's row that holds the address of a page of the runbook."""
RUNBOOK = "runbook"
"""The label that an alert's row shows in the place of that address."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses of Grafana, of the runbook, and of the page of the application."""

    grafana: str = "http://127.0.0.1:3000"
    runbook: str = "docs/runbook.md"
    application: str = "http://127.0.0.1:9108"

    def findings(self, anchor: str) -> str:
        """Return the address of findings with their frames, on the application's page."""
        return f"{self.application}/#{anchor}"

    def section(self, anchor: str) -> str:
        """Return the address of a section of the runbook."""
        return f"{self.runbook}#{anchor}"

    def dashboard(self, uid: str, *labels: str) -> str:
        """Return the address of a dashboard for an alert, with variables set to the alert's labels."""
        chosen = "".join(f"&var-{_VARIABLES[name]}={{{{ $labels.{name} | urlquery }}}}" for name in labels)
        return f"{self.grafana}/d/{uid}?from=now-6h&to=now{chosen}"

    @property
    def is_published(self) -> bool:
        """Whether a browser can open the runbook: its address is no path in a repository."""
        return "://" in self.runbook

    def with_sections(self, expression: str, of: Mapping[str, str]) -> str:
        """Add to each alert its section of the runbook: of its rule, or by `of` for the alert's name."""
        led = self.with_page(expression)
        for name, address in of.items():
            led = f'label_replace({led}, "{PAGE}", "{address}", "alertname", "{name}")'
        return f'label_replace({led}, "{RUNBOOK}", "what to do", "{PAGE}", ".+")'

    def with_page(self, expression: str) -> str:
        """Add to each row the address of the rule's page, or the command that prints it.

        The anchor is the rule's ID without the slash.
        """
        page = self.section("$1$2") if self.is_published else "kipwatch rules $1/$2"
        return f'label_replace({expression}, "{PAGE}", "{page}", "rule", "(.*)/(.*)")'


_VARIABLES = {
    "job": "job",
    "rule": "rule",
    "client_software_name": "software",
    "cluster": "cluster",
    "owner": "owner",
}

SECTION_OF_LABEL = '{{ $labels.rule | reReplaceAll "/" "" }}'
"""The runbook's anchor of the rule that an alert names."""
FINDINGS = "findings"
"""The application's anchor of the latest findings of all rules."""
FINDINGS_OF_LABEL = f'{FINDINGS}-{{{{ $labels.rule | reReplaceAll "/" "-" }}}}'
"""The application's anchor of those of the rule that an alert names."""
TO_RULE = f"/d/{RULE}?{KEPT}&{CHOSEN}&${{software:queryparam}}&var-rule=${{__value.text}}"
"""Leads from a cell with a rule to that rule on the Rule dashboard."""
TO_OWNER = (
    f"/d/{CONFORMANCE}?{KEPT}&${{rule:queryparam}}&${{software:queryparam}}&${{cluster:queryparam}}"
    "&var-owner=${__value.text}"
)
"""Leads from a cell with an owner to the offences of their clients."""
TO_CLIENT = f"/d/{CLIENT}?{KEPT}&{CHOSEN}&var-software=${{__value.text}}"
"""Leads from a cell with a client software to the Client dashboard."""
TO_SUBJECT = f"/d/${{__data.fields.{SUBJECT}}}{KEPT}"
"""Leads from a row with an alert to what it is about."""
TO_PAGE = f"${{__data.fields.{PAGE}}}"
"""Leads from a row to the page that its label names."""


def with_subject(expression: str) -> str:
    """Add to each alert the dashboard of what it is about, its rule or client chosen, as a label."""
    led = f'label_replace({expression}, "{SUBJECT}", "{PIPELINE}?", "", "")'
    led = f'label_replace({led}, "{SUBJECT}", "{CLIENT}?var-software=$1&", "client_software_name", "(.+)")'
    return f'label_replace({led}, "{SUBJECT}", "{RULE}?var-rule=$1&", "rule", "(.+)")'
