"""The job that is expected to take least is started first; what runs is left alone."""

from windtunnel.clusters.policies.base import POLICIES, QueuePolicy

POLICIES.add(
    "sjf",
    QueuePolicy(name="Shortest job first", source="Conway, Maxwell, Miller 1967", key=lambda jobs: jobs.estimates),
)
