"""Where alerts and dashboards lead: the dashboards of a Grafana, and the sections of the runbook.

Alerts carry whole addresses. As committed they are those of the stack in `deploy/compose.yaml` and of this
repository; `python -m dashboards.build --grafana URL --runbook URL` writes others.
"""

from __future__ import annotations

from dataclasses import dataclass

CONFORMANCE, CLIENTS, RULE, PIPELINE = (
    "kipwatch-conformance",
    "kipwatch-clients",
    "kipwatch-rule",
    "kipwatch-pipeline",
)
"""The identifiers of the dashboards, which their addresses are made of."""
KEPT = "${__url_time_range}&${datasource:queryparam}&${job:queryparam}"
"""What every link between dashboards takes along: the time and the choices that lead nowhere else."""
ANCHOR_LABEL = "page"


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
    def section_of_row(self) -> str:
        """The address of the runbook's section on a table's row, from its label `page`."""
        return self.section(f"${{__data.fields.{ANCHOR_LABEL}}}")


_VARIABLES = {"job": "job", "rule": "rule", "client_software_name": "software"}

SECTION_OF_LABEL = '{{ $labels.rule | reReplaceAll "/" "" }}'
"""The runbook's anchor of the rule that an alert names."""


def to_rule() -> str:
    """From a table's cell with a rule to that rule's dashboard."""
    return f"/d/{RULE}?{KEPT}&${{software:queryparam}}&var-rule=${{__value.text}}"


def to_software() -> str:
    """From a table's cell with a client software to the Clients dashboard."""
    return f"/d/{CLIENTS}?{KEPT}&${{rule:queryparam}}&var-software=${{__value.text}}"


def with_anchor(expression: str) -> str:
    """Give each row the anchor of its rule in the runbook: the rule's ID without the slash."""
    return f'label_replace({expression}, "{ANCHOR_LABEL}", "$1$2", "rule", "(.*)/(.*)")'
