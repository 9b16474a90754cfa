"""A model of which each rank holds a part of every tensor: FSDP2 (Zhao et al., arXiv:2304.11277).

A layer's parameters are put together when it is computed and taken apart again. What goes between
the run's flat vector and the parts goes tensor by tensor, from rank 0 to the others or back, so
that no rank has all of the model to hand at any time, but for rank 0 while it reads the folder.
"""

import contextlib
import dataclasses
import os
import shutil
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from atoll_worker.failure import WorkerFailure
from atoll_worker.huggingface.model import quiet, set_checkpointing
from atoll_worker.huggingface.needs import need
from atoll_worker.huggingface.ranks import Ranks

LEAST_TORCH = (2, 6)
PART = "a part"  # stands where the optimiser's state has a tensor that is divided


def check_torch() -> None:
    torch = need("torch")
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version < LEAST_TORCH:
        raise WorkerFailure("sharding needs PyTorch 2.6 or newer (fully_shard), and this is "
                            f"{torch.__version__}")


@dataclasses.dataclass
class Plan:
    """All that a rank needs to know of a model but its values; no folder is needed beside it."""

    config: Any
    adapters: Any                                # PEFT's config; None: there are none
    parameters: List[Tuple[str, Any, Any, bool]]  # name, shape, type, whether it is trained
    buffers: Dict[str, Any]                      # with their values: they are small


def plan_of(model: Any) -> Plan:
    """WorkerFailure: the model has what cannot be divided."""
    adapters = next(iter(getattr(model, "peft_config", {}).values()), None)
    parameters = [(name, tuple(one.shape), one.dtype, one.requires_grad)
                  for name, one in model.named_parameters()]
    for name, shape, _, _ in parameters:
        if not shape:
            raise WorkerFailure(f"sharding: parameter {name} is a single number, which FSDP2 does "
                                "not divide; train this model on one device")
    return Plan(model.config, adapters, parameters, dict(model.named_buffers()))


@contextlib.contextmanager
def _without_values() -> Iterator[None]:
    """Modules made within it have parameters without memory; buffers are as always."""
    torch = need("torch")
    register = torch.nn.Module.register_parameter

    def on_meta(module: Any, name: str, parameter: Any) -> None:
        register(module, name, parameter)
        if parameter is not None and parameter.device.type != "meta":
            module._parameters[name] = torch.nn.Parameter(parameter.detach().to("meta"),
                                                          parameter.requires_grad)
    torch.nn.Module.register_parameter = on_meta
    try:
        yield
    finally:
        torch.nn.Module.register_parameter = register


def _empty(plan: Plan, checkpointing: bool) -> Any:
    """The plan's model without values."""
    quiet()
    with _without_values():
        model = need("transformers").AutoModelForCausalLM.from_config(plan.config)
        model.config.use_cache = False
        if plan.adapters is not None:
            model = need("peft").get_peft_model(model, plan.adapters)
    there = dict(model.named_parameters())
    shapes = [(name, tuple(one.shape)) for name, one in there.items()]
    if shapes != [(name, shape) for name, shape, _, _ in plan.parameters]:
        raise WorkerFailure("sharding: of the same config this rank builds another model than rank "
                            "0 has; take the same versions of transformers and PEFT everywhere, "
                            "or train this model on one device")
    for name, _, dtype, trained in plan.parameters:
        there[name].data = there[name].data.to(dtype)
        there[name].requires_grad_(trained)
    if checkpointing:
        set_checkpointing(model, plan.adapters is not None)
    return model


def _blocks(model: Any) -> List[Any]:
    """The modules that are put together one at a time: those that transformers keeps whole, or the
    members of the longest list of modules."""
    torch = need("torch")
    names: Set[str] = set()
    for module in model.modules():
        names.update(getattr(module, "_no_split_modules", None) or ())
    blocks = [one for one in model.modules() if type(one).__name__ in names]
    if not blocks:
        lists = [one for one in model.modules() if isinstance(one, torch.nn.ModuleList)]
        blocks = list(max(lists, key=len, default=[]))
    return [one for one in blocks if any(True for _ in one.parameters())]


def _embeddings(model: Any) -> List[Any]:
    """The embedding and the head, if they are two: then neither is whole while the blocks are
    computed."""
    pair = [model.get_input_embeddings(), model.get_output_embeddings()]
    if any(getattr(one, "weight", None) is None for one in pair) or \
            pair[0].weight is pair[1].weight:
        return []
    return pair


def divided(plan: Plan, ranks: Ranks, precision: str, checkpointing: bool) -> Any:
    """The plan's model on this rank's device, divided among the ranks. Its parameters have no
    values yet.

    With bf16 the blocks are put together in it, so that a product's weights are not kept in bf16 by
    autocast until the backward pass. What runs between the blocks stays as autocast has it."""
    torch = need("torch")
    fsdp = need("torch.distributed.fsdp")
    model = _empty(plan, checkpointing)
    kind = torch.device(ranks.device).type
    mesh = need("torch.distributed.device_mesh").init_device_mesh(kind, (ranks.size,))
    policy = fsdp.MixedPrecisionPolicy(
        param_dtype=torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False) \
        if precision == "bf16" else fsdp.MixedPrecisionPolicy()
    for block in _blocks(model):
        fsdp.fully_shard(block, mesh=mesh, reshard_after_forward=True, mp_policy=policy)
    for one in _embeddings(model):
        fsdp.fully_shard(one, mesh=mesh, reshard_after_forward=True)
    fsdp.fully_shard(model, mesh=mesh, reshard_after_forward=True)
    model.to_empty(device=ranks.device)
    for name, one in model.named_buffers():
        one.copy_(plan.buffers[name])
    return model


def take_apart(model: Any) -> None:
    """Each parameter lies in its parts again: some versions leave those of the last module whole
    after it was computed, and what is then written into the parts would not count."""
    module_type = need("torch.distributed.fsdp").FSDPModule
    for module in model.modules():
        if isinstance(module, module_type):
            module.reshard()


class Parts:
    """Moves the values of one divided tensor between rank 0 and all. Every rank must call it, in
    the same order."""

    def __init__(self, ranks: Ranks):
        self._torch, self._ranks = need("torch"), ranks

    def rows(self, tensor: Any, rank: int) -> Tuple[int, int]:
        """Which of its rows a rank has, as torch.chunk divides them."""
        each = -(-tensor.shape[0] // self._ranks.size)
        first, end = (min(tensor.shape[0], each * (rank + more)) for more in (0, 1))
        return first, end

    def _local(self, tensor: Any) -> Any:
        local = tensor.detach().to_local()
        first, end = self.rows(tensor, self._ranks.rank)
        if local.shape[0] != end - first:
            raise WorkerFailure(f"sharding: this PyTorch ({self._torch.__version__}) divides "
                                f"{list(tensor.shape)} into parts of {local.shape[0]} rows where "
                                f"{end - first} were thought")
        return local

    def spread(self, tensor: Any, whole: Optional[Any]) -> None:
        """`whole`, which rank 0 has in host memory, becomes the tensor's value."""
        local, (first, end) = self._local(tensor), self.rows(tensor, self._ranks.rank)
        if whole is not None:
            for rank in range(1, self._ranks.size):
                begin, behind = self.rows(tensor, rank)
                if behind > begin:
                    self._ranks.send(whole[begin:behind].contiguous(), rank)
            local.copy_(whole[first:end])
        elif end > first:
            host = self._torch.empty(local.shape, dtype=local.dtype)
            self._ranks.receive(host, 0)
            local.copy_(host)

    def collect(self, tensor: Any, whole: Optional[Any]) -> None:
        """The tensor's value comes into `whole`, which rank 0 has in host memory."""
        local, (first, end) = self._local(tensor), self.rows(tensor, self._ranks.rank)
        if whole is not None:
            whole[first:end].copy_(local)
            for rank in range(1, self._ranks.size):
                begin, behind = self.rows(tensor, rank)
                if behind > begin:
                    self._ranks.receive(whole[begin:behind], rank)
        elif end > first:
            self._ranks.send(local.cpu().contiguous(), 0)


class WholeStates:
    """The states of the optimiser's parts as one process would have them, at rank 0: so a peer may
    come back with another number of devices. The tensors lie in files beside the one to be written,
    so that they take no memory that others cannot have."""

    def __init__(self, parts: Parts, path: Optional[str]):
        """`path` of the file to be written, at rank 0; None elsewhere."""
        self._torch, self._parts = need("torch"), parts
        self._folder = None if path is None else path + ".parts"
        self._count = 0
        self.no_room = ""  # why the states cannot be written; "": they can

    def __enter__(self) -> "WholeStates":
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            os.makedirs(self._folder)
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _room(self, tensor: Any) -> Optional[Any]:
        if self._folder is None:
            return None
        self._count += 1
        path = os.path.join(self._folder, str(self._count))
        # A disk that is full would otherwise be a signal in the middle of the writing.
        try:
            with open(path, "wb") as file:
                os.posix_fallocate(file.fileno(), 0, max(1, tensor.numel()) * tensor.element_size())
        except OSError as error:
            self.no_room = f"{path}: {error.strerror}"
            # The other ranks send their parts all the same.
            return self._torch.empty(tensor.shape, dtype=tensor.dtype)
        flat = self._torch.from_file(path, shared=True, size=tensor.numel(), dtype=tensor.dtype)
        return flat.reshape(tensor.shape)

    def of(self, optimizers: List[Any]) -> List[Any]:
        divided_tensor = need("torch.distributed.tensor").DTensor
        states = []
        for one in optimizers:
            told = one.state_dict()
            whole: Dict[int, Dict[str, Any]] = {}
            for index in sorted(told["state"]):
                whole[index] = dict(told["state"][index])
                for key, value in sorted(whole[index].items()):
                    if isinstance(value, divided_tensor):
                        whole[index][key] = self._room(value)
                        self._parts.collect(value, whole[index][key])
            states.append({"state": whole, "param_groups": told["param_groups"]})
        return states


def without_parts(states: List[Any], optimizers: List[Any]) -> List[Any]:
    """What rank 0 tells the others of whole states: all but the tensors that are divided.
    WorkerFailure: they are of other parameters."""
    def told_of(one: Any, state: Any) -> Any:
        if [len(group["params"]) for group in one.param_groups] != \
                [len(group["params"]) for group in state["param_groups"]]:
            raise WorkerFailure("it is of another number of parameters")
        shapes = [tuple(parameter.shape) for group in one.param_groups
                  for parameter in group["params"]]
        told: Dict[int, Dict[str, Any]] = {}
        for index, entries in state["state"].items():
            for key, value in entries.items():
                shape = tuple(getattr(value, "shape", ()))
                if shape not in ((), shapes[index]):
                    raise WorkerFailure(f"{key} of parameter {index} is {list(shape)}, and the "
                                        f"parameter {list(shapes[index])}")
            told[index] = {key: PART if getattr(value, "ndim", 0) else value
                           for key, value in entries.items()}
        return {"param_groups": state["param_groups"], "state": told}
    if len(states) != len(optimizers):
        raise WorkerFailure(f"it has {len(states)} parts; the optimiser has {len(optimizers)}")
    return [told_of(one, state) for one, state in zip(optimizers, states)]


def take_states(told: List[Any], whole: Optional[List[Any]], optimizers: List[Any],
                parts: Parts) -> None:
    """The optimisers' states become those that rank 0 has as `whole`; `told` is what all know."""
    torch = need("torch")
    for number, (one, state) in enumerate(zip(optimizers, told)):
        parameters = [parameter for group in one.param_groups for parameter in group["params"]]
        taken: Dict[int, Dict[str, Any]] = {}
        for index in sorted(state["state"]):
            taken[index] = dict(state["state"][index])
            for key, value in sorted(taken[index].items()):
                if isinstance(value, str) and value == PART:
                    taken[index][key] = torch.zeros_like(parameters[index])
                    parts.spread(taken[index][key],
                                 whole[number]["state"][index][key] if whole else None)
        one.load_state_dict({"state": taken, "param_groups": state["param_groups"]})
