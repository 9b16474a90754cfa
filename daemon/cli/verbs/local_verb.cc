// `atoll local`: a whole run on this machine, from a config file.
#include <memory>

#include "daemon/cli/local/local_run.h"
#include "daemon/cli/verbs/verbs.h"

namespace atolld {

void AddLocalVerb(CommandLine& command_line) {
  const auto options = std::make_shared<LocalOptions>();
  const Verb verb =
      command_line.AddVerb("local", "Train on this machine: a coordinator and peers, to the model",
                           "atoll local --config configs/quickstart.toml --data docs --rounds 5",
                           [options] { return RunLocal(*options); });
  verb.Add("--config", options->config_path, "The run, a TOML file [the one in --dir]")
      .File()
      .NotEmpty();
  verb.Add("--peers", options->peers, "How many peers, instead of the config's");
  verb.Add("--rounds", options->rounds, "How many rounds, instead of the config's");
  verb.Add("--data", options->data, "A text file or folder, instead of the config's")
      .Path()
      .NotEmpty();
  verb.Add("--dir", options->dir, "New, empty, or a run's to go on with [./atoll-run-TIME]")
      .Folder()
      .NotEmpty();
  verb.Add("--json", options->json, "Write the report there; - for standard output")
      .File()
      .NotEmpty();
  const Option listen = verb.Add("--listen", options->listen,
                                 "HOST:PORT where machines that join find the coordinator; without "
                                 "it, only this machine does");
  verb.Add("--port", options->port, "The coordinator's port; 0 for a free one")
      .Range(0, 65535)
      .Excludes(listen);
  verb.Add("--topology", options->topology,
           "A network of the lab, in which each process has a node and a line [none]")
      .File()
      .NotEmpty()
      .Excludes(listen);
  verb.Add("--ramp", options->ramp,
           "How many peers there are from which round on: 20:8,40:4 [as many all the time]");
  verb.Add("--lines", options->lines,
           "Caps of the peers' lines, up and down: *=20Mbit/100Mbit,peer-1=2Mbit/ [none]");
  verb.Add("--speeds", options->speeds,
           "How many times slower each peer's steps are, in turn: 1,2,4,8 [as the config says]");
  verb.Add("--lora-ranks", options->lora_ranks,
           "How many ranks of the adapters each peer trains, in turn: 4,8,16 [as the config says]");
  verb.Add("--kill-every", options->kill_every,
           "How often to kill a peer drawn at random: 2m [never]");
  verb.Add("--pause-every", options->pause_every, "How often to pause one: 2m [never]");
  verb.Add("--down", options->down, "How long one that was killed or paused is away");
}

}  // namespace atolld
