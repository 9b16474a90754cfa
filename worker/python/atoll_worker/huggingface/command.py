"""`atoll-hf-worker`: what the daemon starts, and what a person may call."""

import argparse
import os
import shutil
import sys
from typing import List, Optional

from atoll_worker.device import FALLBACK
from atoll_worker.failure import WorkerFailure

NAME = "atoll-hf-worker"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=NAME, description="Trains Hugging Face models in an Atoll run. The daemon starts it "
        "for [model] kind = \"huggingface\".")
    parser.add_argument("--socket", help="unix:/PATH of the daemon that starts it")
    parser.add_argument("--device", default="auto",
                        help="cpu, cuda:1, mps [a GPU if there is one]")
    parser.add_argument("--sharding", choices=["none", "full"],
                        default=os.environ.get("ATOLL_HF_SHARDING", "none"),
                        help="of several devices: each holds a whole model, or all together hold "
                        "one [ATOLL_HF_SHARDING, or none]")
    parser.add_argument("--helper", help=argparse.SUPPRESS)  # team.py and ranks.py start it so
    modes = parser.add_subparsers(dest="mode", title="besides", metavar="")
    export = modes.add_parser("export", help="write a run's newest model as a folder")
    export.add_argument("--dir", help="a peer's folder, or a local run's")
    export.add_argument("--state", choices=["-"], help="the state comes through standard input, as "
                        "`atoll export` sends it")
    export.add_argument("--output", "--out", required=True, help="the folder to write")
    export.add_argument("--base", help="the run's [model] path")
    export.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32", help="of the weights")
    export.add_argument("--tokenizer", help="a folder whose tokenizer goes along [the model's]")
    export.add_argument("--lora-rank", type=int, default=0,
                        help="of adapters with slices: how many ranks, from the first on [all]")
    export.add_argument("--force", nargs="?", const="true", default="false",
                        help="write over a folder that is there")
    digest = modes.add_parser("digest", help="print the SHA-256 of a base, for base_digest")
    digest.add_argument("folder")
    digest.add_argument("--precision", choices=["fp32", "bf16"], default="fp32",
                        help="[inner] precision of the run")
    return parser


def _export(options: argparse.Namespace) -> int:
    from atoll_worker.huggingface import export
    output = os.path.abspath(options.output)
    if options.dir:
        more = ["--dtype", options.dtype]
        more += ["--base", os.path.abspath(options.base)] if options.base else []
        more += ["--tokenizer", options.tokenizer] if options.tokenizer else []
        more += ["--lora-rank", str(options.lora_rank)] if options.lora_rank else []
        more += ["--force"] if options.force == "true" else []
        program = shutil.which(sys.argv[0]) or os.path.abspath(sys.argv[0])
        return export.through_atoll(program, options.dir, output, more)
    if options.state != "-":
        raise WorkerFailure("name the run's folder with --dir")
    if not options.base:
        raise WorkerFailure("name the run's [model] path with --base: the state has the values of "
                            "the parameters alone")
    spec, values = export.read_state(sys.stdin.buffer)
    for name in export.write_folder(spec, values, options.base, output, options.dtype,
                                    options.tokenizer, options.force == "true",
                                    options.lora_rank):
        print(name)
    return 0


def _work(socket: str, device: str, sharding: str) -> int:
    import atoll_worker
    if sharding:
        from atoll_worker.huggingface import ranks
        if ranks.by_torchrun():
            ranks.show_life()  # the run, or its data, may be long in coming
    with atoll_worker.connect(socket) as run:
        from atoll_worker.huggingface.needs import need
        for library in ("torch", "transformers"):
            need(library)
        from atoll_worker.huggingface.worker import serve
        serve(run, device, sharding)
    return 0


def _helps(options: argparse.Namespace) -> bool:
    """Whether another process leads this one: the one that started it, or torchrun's rank 0."""
    if options.helper:
        return True
    if options.sharding != "full":
        return False
    from atoll_worker.huggingface.ranks import rank_here
    return rank_here() > 0


def _help_out(told: Optional[str], device: str, sharding: str) -> int:
    if sharding == "full":
        from atoll_worker.huggingface import sharded
        return sharded.help_out(told, device)
    from atoll_worker.huggingface import team
    return team.help_out(str(told), device)


def main(arguments: Optional[List[str]] = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        if options.sharding not in ("none", "full"):  # from the environment
            raise WorkerFailure(f"ATOLL_HF_SHARDING is '{options.sharding}'; it must be none or "
                                "full")
        if options.mode == "export":
            return _export(options)
        if options.mode == "digest":
            from atoll_worker.huggingface.folder import ModelFolder
            from atoll_worker.huggingface.model import base_digest
            folder = ModelFolder(options.folder)
            if not folder.has_weights:
                raise WorkerFailure(f"'{options.folder}' has no weights, so it has no digest")
            print(base_digest(folder, options.precision, 0).hex())
            return 0
        # Nothing is fetched: what a run trains on lies on this machine.
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        os.environ.setdefault(FALLBACK, "1")
        if _helps(options):
            return _help_out(options.helper, options.device, options.sharding)
        if options.socket:
            sharding = "" if options.sharding == "none" else options.sharding
            return _work(options.socket, options.device, sharding)
    except WorkerFailure as failure:
        print(f"{NAME}: {failure}", file=sys.stderr)
        return 1
    parser.print_help()
    return 2


if __name__ == "__main__":
    sys.exit(main())
