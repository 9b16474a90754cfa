"""A party: it trains what it gets on its own piece of the text."""

import functools

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from beside import model as the_model

app = ClientApp()


@functools.lru_cache(maxsize=1)
def world(reference, text):
    module = the_model.reference(reference)
    return (module,) + the_model.texts(module, text)


@app.train()
def train(message: Message, context: Context):
    torch.set_num_threads(1)
    config = context.run_config
    module, text, _, vocabulary = world(config["reference"], config["text"])
    party = context.node_config["partition-id"]
    length = len(text) // config["parties"]
    piece = text[party * length:(party + 1) * length]
    model = module.Gpt(vocabulary)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    seed = 1000 * message.content["config"]["server-round"] + party
    state = context.state
    kept = state["moments"].to_torch_state_dict() if "moments" in state else None
    loss, kept = the_model.train(module, model, piece, config["steps"], seed, kept)
    if config["keep"]:
        state["moments"] = ArrayRecord(kept)
    metrics = {"loss": loss, "num-examples": config["steps"] * module.BATCH}
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()),
                          "metrics": MetricRecord(metrics)})
    return Message(content=content, reply_to=message)
