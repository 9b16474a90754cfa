"""The server: FedAvg, and at the end what it came to, as JSON."""

import json
import time

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from beside import model as the_model

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context):
    config = context.run_config
    module = the_model.reference(config["reference"])
    _, held_out, vocabulary = the_model.texts(module, config["text"])
    torch.manual_seed(1337)
    model = module.Gpt(vocabulary)
    size = sum(4 * values.numel() for values in model.parameters())
    ends = []

    def note(_, arrays):
        ends.append(time.time())
        if len(ends) <= config["rounds"]:
            return MetricRecord({"noted": 0.0})
        model.load_state_dict(arrays.to_torch_state_dict())
        return MetricRecord({"loss": module.evaluate(model, held_out)})

    strategy = FedAvg(fraction_train=config["fraction"], fraction_evaluate=0.0,
                      min_available_nodes=config["parties"])
    result = strategy.start(grid=grid, initial_arrays=ArrayRecord(model.state_dict()),
                            train_config=ConfigRecord({}), num_rounds=config["rounds"],
                            evaluate_fn=note)
    rounds = [after - before for before, after in zip(ends, ends[1:])]
    last = max(result.evaluate_metrics_serverapp)
    with open(config["out"], "w", encoding="utf-8") as out:
        json.dump({"rounds": rounds, "bytes_each_way": size,
                   "loss": result.evaluate_metrics_serverapp[last]["loss"]}, out)
