// `atoll run branch`: a new run from a state of an old one.
#include <google/protobuf/util/message_differencer.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "compression/base/decoder.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "compression/base/terminal.h"
#include "compression/base/words.h"
#include "daemon/cli/local_layout.h"
#include "daemon/cli/output.h"
#include "daemon/cli/replica_fetch.h"
#include "daemon/cli/verbs/admin_verb.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/cli/worker_tool.h"
#include "daemon/config/config.h"
#include "daemon/config/config_sections.h"
#include "daemon/env/posix_files.h"
#include "daemon/env/scratch_folder.h"
#include "daemon/figures/status_json.h"
#include "daemon/program/command_line.h"
#include "daemon/program/format.h"
#include "daemon/program/process.h"
#include "daemon/replica/state/branch_file.h"
#include "daemon/replica/state/replay.h"
#include "membership/history/lineage.h"
#include "membership/run/door.h"

namespace atolld {
namespace {

using Json = nlohmann::ordered_json;

struct BranchOptions {
  std::string from;
  CoordinatorAddress coordinator;  // where `from` is an address
  std::string config;
  std::optional<int64_t> rounds;
  std::string out;
  std::string dir;
  bool fresh_outer = false;
  bool json = false;
};

struct Branched {
  BranchMade made;
  std::string file;
  std::string dir;     // of the prepared run; empty: only the file was wanted
  std::string run_id;  // of the prepared run
  InnerConfig inner;   // of the prepared run
};

struct Source {
  std::string dir;  // absolute; empty: the run's peers are asked
  std::optional<uint64_t> version;
  std::string coordinator{};  // its address, where `dir` is empty
};

bool IsFolder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

// Parses "DIR", "ADDRESS", or one of them with "@VERSION"; a folder whose own name ends in that way
// is itself.
absl::StatusOr<Source> SourceOf(const std::string& from) {
  std::string path = from;
  std::optional<uint64_t> version;
  const size_t at = from.rfind('@');
  uint64_t number = 0;
  if (!IsFolder(from) && at != std::string::npos && at > 0 &&
      absl::SimpleAtoi(from.substr(at + 1), &number)) {
    path = from.substr(0, at);
    version = number;
  }
  if (IsFolder(path)) return Source{AbsoluteFolder(path), version};
  if (IsDialableAddress(path)) return Source{"", version, path};
  return absl::InvalidArgumentError(absl::StrCat(
      "--from ", path,
      " is not a folder; give a peer's, a local run's, one of `atoll snapshot save`, or "
      "the address of a coordinator"));
}

// Returns the differences of two models that make other tensors; empty if their configs show none.
std::string ShapeDifferences(v1::ModelSpec parent, v1::ModelSpec wanted) {
  if (wanted.vocabulary() == 0) wanted.set_vocabulary(parent.vocabulary());  // the data's
  for (v1::ModelSpec* model : {&parent, &wanted}) {
    model->clear_dropout();
    model->clear_from_file();
    model->clear_initial_path();
    model->clear_base_path();
    model->clear_file();
    model->clear_file_digest();
    model->clear_rope_theta();
    model->clear_norm_epsilon();
    const DecoderShape all = DecoderShapeOf(*model);
    DecoderShape tensors;  // what of it makes them
    tensors.family = all.family;
    tensors.head_width = all.head_width;
    tensors.attention_bias = all.attention_bias;
    tensors.experts.count = all.experts.count;
    tensors.experts.hidden = all.experts.hidden;
    tensors.experts.pattern = all.experts.pattern;
    SetDecoderShape(tensors, model);
    model->clear_lora_alpha();
    model->clear_base_bits();
  }
  google::protobuf::util::MessageDifferencer differencer;
  std::string text;
  differencer.ReportDifferencesToString(&text);
  if (differencer.Compare(parent, wanted)) return "";
  return absl::StrReplaceAll(absl::StripSuffix(text, "\n"), {{"\n", "; "}});
}

// Sets a schedule that continues training without a jump: a run that has been annealed loses the
// gain if it goes back to the peak, and new moments of the optimiser make the first steps rough.
void TakeGentleSchedule(InnerConfig* inner) {
  constexpr double kShareOfPeak = 0.25;
  constexpr double kShareAtTheEnd = 0.1;
  inner->learning_rate *= kShareOfPeak;
  inner->min_learning_rate =
      std::min(inner->min_learning_rate, kShareAtTheEnd * inner->learning_rate);
  inner->schedule = "wsd";
  inner->decay_steps = 0;
  inner->cooldown_steps = 0;
}

// Returns the config of the new run, checked against the old one; a branch file alone needs none.
absl::StatusOr<std::optional<Config>> ConfigOf(Files& files, const BranchOptions& options,
                                               const Source& source, const v1::RunSpec& parent) {
  std::string path = options.config;
  const bool own = path.empty();  // then the old run's, with an id of its own
  if (own) {
    if (options.dir.empty()) return std::nullopt;
    path = absl::StrCat(source.dir, "/", kRunConfig);
    if (!files.Exists(absl::StrCat(source.dir, "/", kPeersFile)) || !files.Exists(path)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "give --config FILE, the config of the new run: ", source.dir, " keeps none of its own"));
    }
  }
  std::vector<ConfigOverride> overrides;
  if (options.rounds) overrides.push_back({"--rounds", "run", "rounds", *options.rounds});
  ASSIGN_OR_RETURN(Config config, LoadConfig(path, ConfigUse::kLocal, overrides));
  if (own) {
    config.run.id.clear();
    TakeGentleSchedule(&config.inner);
  }
  if (config.run.id.empty()) {
    config.run.id = MakeRunId(own ? AbsoluteFolder(options.dir) : path, absl::Now());
  }
  if (config.run.id == parent.run_id()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": [run] id is ", config.run.id,
                     ", the old run's; a branch is a run of its own, so give another id"));
  }
  if (!config.model.initial.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": [model] initial names another state to begin with; leave it out for a branch"));
  }
  const std::string differences = ShapeDifferences(parent.model(), MakeModelSpec(config.model));
  if (differences.empty()) return std::optional<Config>(std::move(config));
  return absl::InvalidArgumentError(absl::StrCat(path, ": [model] makes other tensors than run ",
                                                 parent.run_id(), " has: ", differences,
                                                 "; a branch keeps its parent's model"));
}

// Prepares the folder in which `atoll local` begins the run.
absl::StatusOr<std::string> PrepareFolder(Files& files, const BranchOptions& options) {
  const std::string dir = AbsoluteFolder(options.dir);
  RETURN_IF_ERROR(CheckNewFolder(files, dir));
  if (files.Exists(absl::StrCat(dir, "/", kRunBranch))) {
    return absl::AlreadyExistsError(
        absl::StrCat(dir, " holds a branch that has not begun; go on with: ",
                     ShellCommand({"atoll", "local", "--dir", options.dir})));
  }
  RETURN_IF_ERROR(files.MakeDirectories(dir));
  return dir;
}

// Checks what can be wrong before anything is asked.
absl::Status CheckBranchCall(Files& files, const BranchOptions& options, const Source& source) {
  const bool as_somebody = !options.coordinator.identity.empty() || options.coordinator.plaintext;
  if (!source.dir.empty()) {
    if (!as_somebody) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "--identity and --plaintext are for a --from that is a coordinator's address");
  }
  if (!as_somebody) {
    return absl::InvalidArgumentError(
        absl::StrCat("--from ", source.coordinator,
                     ": a coordinator and its peers serve administrators alone: name the folder of "
                     "their credentials (--identity COORDINATOR_DIR/admin)"));
  }
  if (!options.dir.empty() && options.config.empty()) {
    return absl::InvalidArgumentError(
        "give --config FILE, the config of the new run: a coordinator gives none");
  }
  if (!options.out.empty() && files.Exists(AbsoluteFolder(options.out))) {
    return absl::AlreadyExistsError(
        absl::StrCat(options.out, " is there already; nothing is overwritten"));
  }
  return options.dir.empty() ? absl::OkStatus()
                             : CheckNewFolder(files, AbsoluteFolder(options.dir));
}

// Shows the progress on a terminal, in one line that is redrawn.
void TellProgress(uint64_t bytes, uint64_t total) {
  if (!TerminalFor(isatty(STDERR_FILENO) != 0).redraws) return;
  std::fprintf(stderr, "\rfetching the snapshot: %s of %s  %s",
               FormatBytes(static_cast<double>(bytes)).c_str(),
               FormatBytes(static_cast<double>(total)).c_str(), bytes == total ? "\n" : "");
  std::fflush(stderr);
}

// The source of a branch, and its location.
struct Parent {
  std::string replica;
  std::vector<v1::EntryHeader> headers;         // of a run that was asked; else of the log
  std::unique_ptr<const ScratchFolder> folder;  // where it was fetched to
};

absl::StatusOr<Parent> FindParent(Files& files, const BranchOptions& options,
                                  const Source& source) {
  Parent parent;
  if (!source.dir.empty()) {
    ASSIGN_OR_RETURN(parent.replica, FurthestReplica(files, source.dir));
    return parent;
  }
  CoordinatorAddress coordinator = options.coordinator;
  coordinator.address = source.coordinator;
  ReplicaFetch fetch;
  ASSIGN_OR_RETURN(fetch.access, ResolveCoordinator(coordinator));
  ASSIGN_OR_RETURN(parent.folder,
                   ScratchFolder::Make(absl::StrCat(
                       AbsoluteFolder(options.out.empty() ? options.dir : options.out), ".fetch")));
  fetch.version = source.version;
  fetch.dir = parent.replica = parent.folder->path();
  fetch.on_progress = TellProgress;
  ASSIGN_OR_RETURN(FetchedReplica fetched, FetchReplica(fetch));
  parent.headers = std::move(fetched.headers);
  return parent;
}

absl::StatusOr<Branched> MakeBranch(const BranchOptions& options) {
  PosixFiles files;
  if (options.out.empty() == options.dir.empty()) {
    return absl::InvalidArgumentError(
        "give either --dir DIR, to prepare a run that `atoll local` begins, or --out FILE");
  }
  ASSIGN_OR_RETURN(const Source source, SourceOf(options.from));
  RETURN_IF_ERROR(CheckBranchCall(files, options, source));
  ASSIGN_OR_RETURN(const Parent parent, FindParent(files, options, source));
  ASSIGN_OR_RETURN(const v1::Genesis genesis, ReadGenesis(files, parent.replica));
  ASSIGN_OR_RETURN(std::optional<Config> config, ConfigOf(files, options, source, genesis.spec()));
  Branched branched;
  if (!options.dir.empty()) {
    ASSIGN_OR_RETURN(branched.dir, PrepareFolder(files, options));
    branched.file = absl::StrCat(branched.dir, "/", kRunBranch);
  } else {
    branched.file = AbsoluteFolder(options.out);
  }
  const BranchRequest request = {parent.replica, source.version, branched.file, options.fresh_outer,
                                 parent.headers};
  ASSIGN_OR_RETURN(branched.made, WriteBranchFile(files, request));
  if (branched.dir.empty()) return branched;
  branched.run_id = config->run.id;
  branched.inner = config->inner;
  config->run.branch = branched.file;
  RETURN_IF_ERROR(WriteRunConfig(files, branched.dir, *config));
  return branched;
}

Json ToJson(const Branched& branched) {
  Json json = LineageJson(branched.made.lineage);
  json["file"] = branched.file;
  json["bytes"] = branched.made.bytes;
  json["whole_log"] = branched.made.whole_log;
  json["dir"] = branched.dir.empty() ? Json(nullptr) : Json(branched.dir);
  json["new_run_id"] = branched.dir.empty() ? Json(nullptr) : Json(branched.run_id);
  return json;
}

std::vector<std::string> Told(const BranchOptions& options, const Branched& branched) {
  const v1::Lineage& lineage = branched.made.lineage;
  std::vector<std::string> lines = {
      absl::StrCat(branched.file, " (", FormatBytes(static_cast<double>(branched.made.bytes)),
                   "): ", LineageText(lineage)),
      absl::StrCat("the parent had done ", WithThousands(lineage.steps()), " steps and ",
                   branched.made.whole_log ? "" : "at least ", WithThousands(lineage.tokens()),
                   " tokens; in the same corpus the branch goes on at sample ",
                   WithThousands(lineage.next_sample()))};
  if (branched.dir.empty()) {
    lines.push_back(absl::StrCat("Begin a run with it: [run] branch = \"", branched.file,
                                 "\" in the config of its coordinator and of a peer"));
    return lines;
  }
  lines.push_back(absl::StrCat("run ", branched.run_id, ": schedule ", branched.inner.schedule,
                               " at ", branched.inner.learning_rate, " after ",
                               Counted(branched.inner.warmup_steps, "step"),
                               " of warm-up; its config is ", branched.dir, "/", kRunConfig));
  lines.push_back(
      absl::StrCat("Go on with: ", ShellCommand({"atoll", "local", "--dir", options.dir})));
  return lines;
}

VerbExit Branch(const BranchOptions& options) {
  ASSIGN_OR_RETURN(const Branched branched, MakeBranch(options));
  return PrintAnswer(options.json, ToJson(branched), Told(options, branched));
}

}  // namespace

void AddBranchVerb(CommandLine& command_line) {
  const auto options = std::make_shared<BranchOptions>();
  const Verb verb = command_line.AddVerb(
      "run branch",
      "Begin a new run from a state of an old one\n"
      "Of any version that snapshots and log cover, sealed or not. The new run has its own config, "
      "counts its rounds and its schedule from 0, and names its parent in its first record.",
      "atoll run branch --from build/quickstart --rounds 20 --dir build/more",
      [options] { return Branch(*options); });
  verb.Add("--from", options->from,
           "A peer's folder, a local run's, or a coordinator's address; @VERSION: an old one")
      .Path()
      .Required();
  const Option identity = verb.Add("--identity", options->coordinator.identity,
                                   "With an address: the folder of the administrator's credentials")
                              .Folder();
  verb.Flag("--plaintext", options->coordinator.plaintext,
            "With an address: the run has no certificates")
      .Excludes(identity);
  verb.Add("--config", options->config,
           "The new run, a TOML file [the old local run's, at a gentler rate]")
      .File()
      .NotEmpty();
  verb.Add("--rounds", options->rounds, "How many rounds, instead of the config's");
  verb.Add("--dir", options->dir, "Prepare the run in this new folder, for `atoll local --dir`")
      .Folder()
      .NotEmpty();
  verb.Add("--out", options->out, "Only write the file, for [run] branch of one config or several")
      .File()
      .NotEmpty();
  verb.Flag("--fresh-outer", options->fresh_outer, "Leave the outer momentum behind");
  verb.Flag("--json", options->json, "Print as JSON");
}

}  // namespace atolld
