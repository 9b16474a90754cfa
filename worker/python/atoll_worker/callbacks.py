"""An Atoll run beneath the trainer that a script has: of transformers, or of Lightning.

    with atoll_worker.connect() as run:
        Trainer(model, ..., callbacks=[AtollCallback(run)]).train()

The trainer keeps its data, its optimiser and its schedule; the run sets the parameters at the
beginning of each round and takes them at its end. Without transformers or Lightning the class of
that library can still be made; its trainer alone knows what to do with it.
"""

from typing import Any, Dict, List, Optional

from atoll_worker.failure import WorkerFailure
from atoll_worker.parameters import Parameters
from atoll_worker.run import Run
from atoll_worker.steps import Steps

TrainerCallback: Any
try:
    from transformers import TrainerCallback
except ImportError:
    TrainerCallback = object

LightningBase: Any
try:
    from lightning.pytorch.callbacks import Callback as LightningBase
except ImportError:
    try:
        from pytorch_lightning.callbacks import Callback as LightningBase
    except ImportError:
        LightningBase = object


class _Losses:
    """The losses of the batches since the last step of the optimiser."""

    def __init__(self) -> None:
        self._all: List[float] = []
        self._parts = False

    def add(self, loss: Any, parts: bool = False) -> None:
        """`parts`: all of the step's together are its loss, else their mean is."""
        self._parts = parts
        self._all.append(float(loss.detach() if hasattr(loss, "detach") else loss))

    def take(self) -> float:
        if not self._all:
            raise WorkerFailure("a step was done, and the model told no loss; give the model its "
                                "labels")
        mean = sum(self._all) / (1 if self._parts else len(self._all))
        self._all.clear()
        return mean


def _attached(model: Any) -> Parameters:
    from atoll_worker.torch import attach
    return attach(model)


class AtollCallback(TrainerCallback):
    """For transformers.Trainer. `rounds` goes to run.rounds(): data_digest, evaluate and so on.

    Train on one device, with as many steps as the run may ask for (max_steps); the run's end stops
    the trainer. `parameters` (default: all of the model that need a gradient) are exchanged.
    """

    def __init__(self, run: Run, parameters: Optional[Parameters] = None, **rounds: Any):
        self._run, self._parameters, self._rounds = run, parameters, rounds
        self._losses = _Losses()
        self._steps: Optional[Steps] = None
        self._hook: Any = None

    def _on_output(self, module: Any, _: Any, given: Dict[str, Any], output: Any) -> None:
        """What the model says of a batch in training; what it says in an evaluation is not."""
        if not module.training:
            return
        loss = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
        if loss is not None:
            # Told how many tokens the whole step has, a model gives this batch's part of its mean.
            self._losses.add(loss, parts=given.get("num_items_in_batch") is not None)

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None,
                       **_: Any) -> None:
        if getattr(args, "world_size", 1) > 1:
            raise WorkerFailure(f"the trainer runs on {args.world_size} devices; a peer is one")
        self._hook = model.register_forward_hook(self._on_output, with_kwargs=True)
        parameters = self._parameters or _attached(model)
        self._steps = Steps(self._run.rounds(parameters, **self._rounds))
        control.should_training_stop = self._steps.ended

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._steps is None:
            raise WorkerFailure("a step was done before the training began")
        if not self._steps.done(self._losses.take()):
            control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._hook is not None:
            self._hook.remove()


class LightningCallback(LightningBase):
    """For Lightning's Trainer, as AtollCallback; training_step gives the loss or {"loss": loss}."""

    def __init__(self, run: Run, parameters: Optional[Parameters] = None, **rounds: Any):
        super().__init__()
        self._run, self._parameters, self._rounds = run, parameters, rounds
        self._losses = _Losses()
        self._steps: Optional[Steps] = None
        self._seen = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if getattr(trainer, "world_size", 1) > 1:
            raise WorkerFailure(f"the trainer runs on {trainer.world_size} devices; a peer is one")
        parameters = self._parameters or _attached(pl_module)
        self._steps = Steps(self._run.rounds(parameters, **self._rounds))
        self._seen = trainer.global_step
        trainer.should_stop = self._steps.ended

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any,
                           batch_idx: int) -> None:
        loss = outputs["loss"] if isinstance(outputs, dict) else outputs
        if loss is not None:
            self._losses.add(loss)
        if self._steps is None or trainer.global_step == self._seen:
            return  # gradients are accumulated
        self._seen = trainer.global_step
        if not self._steps.done(self._losses.take()):
            trainer.should_stop = True
