"""MLflow: a run in the experiment MLFLOW_EXPERIMENT_NAME or "atoll", known by its tag atoll.run."""

import os
from typing import Dict

from atoll_track.tracker import Figure, RunFacts, Tracker, require

TAG = "atoll.run"
# What MLflow takes in one call.
MOST_PARAMETERS = 100
# MLflow waits by itself for half an hour in all; the figures are kept by the coordinator, and this
# program tries again by itself.
SETTINGS = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
            "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true"}


def uri_of(target: str) -> str:
    """A folder stands for a database in it."""
    if "://" in target or target.startswith("databricks"):
        return target
    return f"sqlite:///{os.path.abspath(target)}/mlflow.db"


class Mlflow(Tracker):

    def __init__(self, target: str):
        self._uri = uri_of(target)
        self._client = None
        self._run = ""
        require("mlflow", "atoll[mlflow]", "mlflow")
        if self._uri.startswith("sqlite:"):
            # mlflow-skinny has no databases.
            require("sqlalchemy", "mlflow", "mlflow without a server")

    def open(self, run: RunFacts) -> Dict[str, int]:
        for name, value in SETTINGS.items():
            os.environ.setdefault(name, value)
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient
        if self._uri.startswith("sqlite:///"):
            os.makedirs(os.path.dirname(self._uri[len("sqlite:///"):]), exist_ok=True)
        self._client = MlflowClient(tracking_uri=self._uri)
        experiment = self._experiment()
        found = self._client.search_runs([experiment], f"tags.`{TAG}` = '{run.unique_id}'",
                                         order_by=["attributes.start_time ASC"], max_results=1)
        there = found[0] if found else self._client.create_run(
            experiment, tags={TAG: run.unique_id}, run_name=run.name)
        self._run = there.info.run_id
        new = [Param(name, str(value)) for name, value in run.parameters.items()
               if name not in there.data.params]
        for at in range(0, len(new), MOST_PARAMETERS):
            self._client.log_batch(self._run, params=new[at:at + MOST_PARAMETERS])
        if there.info.status != "RUNNING":  # it was sealed, or somebody has ended it
            self._client.update_run(self._run, status="RUNNING")
        return {name: max(one.step for one in
                          self._client.get_metric_history(self._run, name))
                for name in there.data.metrics}

    def _experiment(self) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or "atoll"
        found = self._client.get_experiment_by_name(name)
        return found.experiment_id if found else self._client.create_experiment(name)

    def write(self, version: int, figures: Dict[str, Figure], when: float, complete: bool) -> None:
        from mlflow.entities import Metric
        numbers = [Metric(name, float(value), int(when * 1000), version)
                   for name, value in figures.items() if not isinstance(value, str)]
        if numbers:
            self._client.log_batch(self._run, metrics=numbers)

    def close(self, sealed: bool) -> None:
        if self._client is not None and sealed:
            self._client.set_terminated(self._run, "FINISHED")
