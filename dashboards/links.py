"""Links of alerts and dashboards: to the dashboards of a Grafana and to sections of the runbook.

Alerts carry whole addresses. As committed they are those of the stack in `deploy/compose.yaml` and, for the
runbook, paths in this repository; `python -m dashboards.build` writes others for those who name their own.
"""

from __future__ import annotations

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
"""The identifiers of the dashboards, which are part of their addresses."""
KEPT = "${__url_time_range}&${datasource:queryparam}&${job:queryparam}"
"""What every link between dashboards keeps: the time range, data source and job."""
PAGE = "page"
"""The label of a table's row that holds the address of a rule's page in the runbook."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where Grafana answers, and where the runbook can be read."""

    grafana: str = "http://127.0.0.1:3000"
    runbook: str = "docs/runbook.md"

    def section(self, anchor: str) -> str:
        """The address of one section of the runbook."""
        return f"{self.runbook}#{anchor}"

    def dashboard(self, uid: str, *labels: str) -> str:
        """The address of a dashboard in an alert, with its variables set to the alert's own labels."""
        chosen = "".join(f"&var-{_VARIABLES[name]}={{{{ $labels.{name} | urlquery }}}}" for name in labels)
        return f"{self.grafana}/d/{uid}?from=now-6h&to=now{chosen}"

    @property
    def is_published(self) -> bool:
        """Whether a browser can open the runbook: a path in a repository means nothing to Grafana."""
        return "://" in self.runbook

    def with_page(self, expression: str) -> str:
        """Give each row the address of its rule's page, whose anchor is the rule's ID without the slash."""
        return f'label_replace({expression}, "{PAGE}", "{self.section("$1$2")}", "rule", "(.*)/(.*)")'


_VARIABLES = {"job": "job", "rule": "rule", "client_software_name": "software"}

SECTION_OF_LABEL = '{{ $labels.rule | reReplaceAll "/" "" }}'
"""The runbook's anchor of the rule that an alert names."""


def to_rule() -> str:
    """From a table's cell with a rule to that rule's dashboard."""
    return f"/d/{RULE}?{KEPT}&${{software:queryparam}}&var-rule=${{__value.text}}"


def to_software() -> str:
    """From a table's cell with a client software to the Clients dashboard."""
    return f"/d/{CLIENTS}?{KEPT}&${{rule:queryparam}}&var-software=${{__value.text}}"


def to_client() -> str:
    """From a table's cell with a client software to the dashboard that is about it."""
    return f"/d/{CLIENT}?{KEPT}&var-software=${{__value.text}}"


def to_page() -> str:
    """From a table's row to the page that its label names."""
    return f"${{__data.fields.{PAGE}}}"
