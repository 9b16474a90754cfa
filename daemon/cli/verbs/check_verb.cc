// `atoll check`: finds out whether this machine can take part in a run, before it does or when it
// does not.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "compression/base/process_limits.h"
#include "compression/base/status_macros.h"
#include "daemon/cli/beforehand.h"
#include "daemon/cli/output.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/cli/worker_tool.h"
#include "daemon/config/config.h"
#include "daemon/config/data_on_disk.h"
#include "daemon/config/run_record.h"
#include "daemon/config/training_memory.h"
#include "daemon/env/posix_files.h"
#include "daemon/env/scratch_folder.h"
#include "daemon/fitness/preflight.h"
#include "daemon/fitness/run_costs.h"
#include "daemon/fitness/run_needs.h"
#include "daemon/identity/certificate.h"
#include "daemon/identity/credentials.h"
#include "daemon/program/process.h"
#include "daemon/program/token_argument.h"
#include "daemon/replica/state/replay.h"
#include "daemon/transport/coordinator_client.h"
#include "membership/trust/tokens.h"

namespace atolld {
namespace {

using Weight = Finding::Weight;

// Another machine that measures has finished by then.
constexpr absl::Duration kTurnPatience = absl::Seconds(15);

struct CheckOptions {
  TokenArgument token;
  std::string config;
  std::string dir = ".";
  std::string advertise;
  std::string listen;
  Brought brought;
  bool quick = false;
  bool json = false;
};

// What `check` has found out.
struct CheckAnswer {
  std::vector<Finding> findings;
  std::optional<TrainingFit> training;  // if the run is known, and what its training needs
};

// Returns "identity: of peer lab-3, good until 2025-01-31 14:25:01 UTC".
Finding ValidityOf(absl::string_view subject, const CertificateInfo& certificate, absl::Time now) {
  const std::string whose = absl::StrCat(
      subject, ": of ", Describe(certificate.identity), ", good until ",
      absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", certificate.not_after, absl::UTCTimeZone()));
  const absl::Status valid = CheckValidAt(certificate, now);
  if (valid.ok()) return {Weight::kGood, whose};
  return {Weight::kFatal, absl::StrCat(subject, ": ", valid.message())};
}

// Checks the identity of an enrolled peer; a machine without one may join later.
Finding CheckIdentity(const std::string& dir, absl::Time now,
                      std::optional<Credentials>* credentials) {
  PosixFiles files;
  Credentials own;
  const absl::StatusOr<CertificateInfo> info =
      LoadCredentials(files, absl::StrCat(dir, "/", kIdentityFolder), now, &own);
  if (info.ok()) {
    *credentials = std::move(own);
    return ValidityOf("identity", *info, now);
  }
  const bool none = absl::IsNotFound(info.status());
  return {none ? Weight::kDoubtful : Weight::kFatal,
          absl::StrCat("identity: ", info.status().message(),
                       none ? "; `atolld join --token-file FILE` gets one" : "")};
}

// Finds out what taking part would cost, with the worker that `looked` names.
void TakeCosts(const CheckOptions& options, const PreflightOptions& looked, CostQuestion question,
               std::vector<Finding>* findings) {
  if (options.quick) return;
  question.worker = looked.worker;
  question.threads = looked.threads;
  question.dialled = !looked.advertise.empty();
  for (Finding& finding : LookAtCosts(question)) findings->push_back(std::move(finding));
}

// Finds out what the run is and needs, if its coordinator answers. Meanwhile the token's
// credentials are under `folder`.
void TakeNeeds(const CheckOptions& options, const v1::JoinToken& token,
               const PreflightOptions& looked, const std::string& folder, CheckAnswer* answer) {
  std::vector<Finding>* const findings = &answer->findings;
  PosixFiles files;
  const absl::StatusOr<v1::RunDescription> run =
      AskAboutRun(files, token, folder + "/run", Waiting{absl::Seconds(5)});
  if (!run.ok()) {
    return findings->push_back({Weight::kDoubtful, absl::StrCat("run: ", run.status().message())});
  }
  const Brought& brought = options.brought;
  const bool named =
      !absl::StrCat(brought.data, brought.tokenizer, brought.base, brought.program).empty();
  const MemoryLimit memory = ReadProcessLimits().memory;
  std::vector<Finding> needs = CheckNeeds(files, *run, brought, memory);
  for (size_t i = 0; i < needs.size(); ++i) {
    // A user who names nothing asks what to bring; then nothing counts as missing.
    if (i > 0 && !named) needs[i].weight = std::min(needs[i].weight, Weight::kDoubtful);
    findings->push_back(std::move(needs[i]));
  }
  if (run->has_seal()) return;
  if (run->role() != kAggregatorRoleName) {
    TrainingRoom room;
    room.memory = memory;
    room.peers = static_cast<uint32_t>(run->holders_size()) + 1;
    answer->training = FitInto(run->spec(), room);
  }
  CostQuestion question;
  question.spec = run->spec();
  question.peers = static_cast<uint32_t>(run->holders_size()) + 1;
  question.measure_line = [&] {
    return MeasureLineWith(files, token, folder + "/line", kTurnPatience);
  };
  PreflightOptions trains = looked;
  if (run->role() == kAggregatorRoleName) trains.worker.clear();
  TakeCosts(options, trains, std::move(question), findings);
}

void TakeNeedsInFolder(const CheckOptions& options, const v1::JoinToken& token,
                       const PreflightOptions& looked, CheckAnswer* answer) {
  std::error_code error;
  const std::filesystem::path top = std::filesystem::temp_directory_path(error);
  const auto folder =
      error ? absl::NotFoundError("") : ScratchFolder::Make((top / "atoll-check").string());
  if (!folder.ok()) {
    return answer->findings.push_back(
        {Weight::kDoubtful, "run: not asked about: TMPDIR names no folder that can be written to"});
  }
  TakeNeeds(options, token, looked, (*folder)->path(), answer);
}

absl::Status TakeToken(const CheckOptions& options, PreflightOptions* looked, CheckAnswer* answer) {
  PosixFiles files;
  ASSIGN_OR_RETURN(const std::string text, ReadToken(files, options.token, stdin, stderr));
  ASSIGN_OR_RETURN(const v1::JoinToken token, ParseJoinToken(text));
  const absl::StatusOr<CertificateInfo> bootstrap = ParseCertificate(token.certificate());
  if (!bootstrap.ok()) return Annotate(bootstrap.status(), "the token");
  looked->coordinator = token.address();
  looked->credentials = Credentials{token.authority(), token.certificate(), token.key()};
  looked->no_earlier_than = bootstrap->not_before + kLateClocks;
  answer->findings.push_back(ValidityOf("token", *bootstrap, looked->now));
  if (answer->findings.back().weight == Weight::kGood) {
    TakeNeedsInFolder(options, token, *looked, answer);
  }
  return absl::OkStatus();
}

// Checks the devices and the data as a worker that trains would find them.
void CheckTrainer(Config* config, ConfigUse use, std::vector<Finding>* findings) {
  const absl::StatusOr<std::string> worker = FindWorker("", "gpt");
  if (!worker.ok()) return;  // there is no worker of ours, as `training` says
  const absl::Status devices = CheckDevices(*worker, *config);
  if (!devices.ok()) {
    findings->push_back({Weight::kFatal, absl::StrCat("device: ", devices.message())});
  }
  const absl::Status size = CheckDataSize(*config);
  const absl::StatusOr<DataFound> found = size.ok() ? InspectData(*worker, config, use) : size;
  if (!found.ok()) {
    findings->push_back({Weight::kFatal, absl::StrCat("data: ", found.status().message())});
  } else if (found->read) {
    findings->push_back(
        {Weight::kGood, absl::StrCat("data: ", found->train_tokens, " training and ",
                                     found->validation_tokens, " validation tokens")});
  }
}

// Finds out what a worker with this config needs for this run.
void TakeTraining(const Config& config, const v1::RunSpec& spec, CheckAnswer* answer) {
  TrainingRoom room;
  room.device = config.worker.device;
  room.limit_bytes = config.worker.memory;
  room.daemon_in_memory = config.peer.values_in != "disk";
  room.peers = config.run.peers;
  room.lora_rank = config.worker.lora_rank;
  room.memory = ReadProcessLimits().memory;
  answer->training = FitInto(spec, room);
  if (!answer->training.has_value()) return;
  answer->findings.push_back(TrainingFinding(spec, room, *answer->training));
}

// For a peer that has been in its run, the replica says what the run is.
void TakeOwnCosts(const CheckOptions& options, const Config& config, const PreflightOptions& looked,
                  CheckAnswer* answer) {
  PosixFiles files;
  const absl::StatusOr<v1::Genesis> genesis = ReadGenesis(files, looked.dir);
  if (!genesis.ok()) return;
  if (config.peer.role != kAggregatorRoleName) TakeTraining(config, genesis->spec(), answer);
  CostQuestion question;
  question.spec = genesis->spec();
  question.peers = std::max(config.run.peers, 2u);
  question.machine = config.machine;
  question.device = config.worker.device;
  question.slower = config.worker.slower;
  if (config.network.plaintext || looked.credentials) {
    question.measure_line = [&] {
      const std::string identity =
          config.network.plaintext ? "" : absl::StrCat(looked.dir, "/", kIdentityFolder);
      return MeasureLine(CoordinatorAccess{looked.coordinator, identity}, kTurnPatience);
    };
  }
  TakeCosts(options, looked, std::move(question), &answer->findings);
}

// For the config of a run, which names no peer: what a worker on this machine would need.
void TakeRunConfig(Config config, PreflightOptions* looked, CheckAnswer* answer) {
  looked->threads = config.worker.threads;
  if (!config.worker.program.empty()) looked->worker = config.worker.program;
  const std::string& kind = config.model.kind;
  if (kind == kStubKind || IsForeign(kind)) return;
  std::error_code error;
  const std::string& data = config.data.path;
  if (!data.empty() && !std::filesystem::exists(data, error)) {
    answer->findings.push_back(
        {Weight::kDoubtful, absl::StrCat("data: '", data, "' is not on this machine")});
  } else if (!data.empty() || !config.data.sources.empty()) {
    CheckTrainer(&config, ConfigUse::kAny, &answer->findings);
  }
  TakeTraining(config, MakeRunSpec(config), answer);
}

absl::Status TakeConfig(const CheckOptions& options, PreflightOptions* looked,
                        CheckAnswer* answer) {
  std::vector<Finding>* const findings = &answer->findings;
  ASSIGN_OR_RETURN(Config config, LoadConfig(options.config, ConfigUse::kAny));
  if (config.peer.id.empty()) {
    TakeRunConfig(std::move(config), looked, answer);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(config, LoadConfig(options.config, ConfigUse::kPeer));
  looked->dir = config.peer.dir;
  looked->coordinator = config.coordinator.address;
  if (config.peer.advertise != kDialsOutOnly) looked->advertise = config.peer.advertise;
  looked->listen = config.peer.listen;
  looked->threads = config.worker.threads;
  const std::string& kind = config.model.kind;
  if (config.peer.role == kAggregatorRoleName || kind == kStubKind || kind == kExternalKind ||
      kind == kHuggingFaceKind) {
    looked->worker.clear();
  } else if (!config.worker.program.empty()) {
    looked->worker = config.worker.program;
  }
  if (!looked->worker.empty()) CheckTrainer(&config, ConfigUse::kPeer, findings);
  const std::optional<pid_t> running = RunningDaemon(looked->dir);
  looked->runs = running.has_value();
  findings->push_back({Weight::kGood, running ? absl::StrCat("daemon: runs as process ", *running)
                                              : std::string("daemon: does not run")});
  if (!config.network.plaintext) {
    findings->push_back(CheckIdentity(looked->dir, looked->now, &looked->credentials));
  }
  if (!running) TakeOwnCosts(options, config, *looked, answer);
  return absl::OkStatus();
}

absl::StatusOr<CheckAnswer> Look(const CheckOptions& options) {
  PreflightOptions looked;
  looked.dir = AbsoluteFolder(options.dir);
  looked.advertise = options.advertise;
  looked.listen = options.listen;
  looked.worker = absl::StrCat(ProgramFolder(), "/atoll-worker");
  looked.now = absl::Now();
  CheckAnswer answer;
  if (!options.config.empty()) {
    RETURN_IF_ERROR(TakeConfig(options, &looked, &answer));
  } else if (options.token.given()) {
    RETURN_IF_ERROR(TakeToken(options, &looked, &answer));
  }
  if (!looked.advertise.empty() && looked.advertise.rfind(':') == std::string::npos) {
    return absl::InvalidArgumentError("--advertise must have the form HOST:PORT");
  }
  for (Finding& finding : Preflight(looked)) answer.findings.push_back(std::move(finding));
  return answer;
}

nlohmann::ordered_json TrainingJson(const TrainingFit& fit) {
  return {{"fits", fit.fits},
          {"accumulation", fit.accumulation},
          {"checkpointing", fit.checkpointing},
          {"needed_bytes", std::llround(fit.needed.bytes())},
          {"recorded_bytes", std::llround(fit.recorded.bytes())},
          {"recorded_base_bytes", std::llround(fit.recorded.base_bytes)},
          {"recorded_state_bytes", std::llround(fit.recorded.state_bytes)},
          {"recorded_step_bytes", std::llround(fit.recorded.step_bytes)}};
}

VerbExit Check(const CheckOptions& options) {
  ASSIGN_OR_RETURN(const CheckAnswer answer, Look(options));
  const std::vector<Finding>& findings = answer.findings;
  const bool fit = std::none_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.weight == Weight::kFatal;
  });
  nlohmann::ordered_json json = {{"fit", fit}, {"findings", nlohmann::ordered_json::array()}};
  std::vector<std::string> lines;
  for (const Finding& finding : findings) {
    const size_t colon = finding.line.find(": ");
    json["findings"].push_back({{"subject", finding.line.substr(0, colon)},
                                {"weight", NameOf(finding.weight)},
                                {"text", finding.line.substr(colon + 2)}});
    lines.push_back(absl::StrFormat("%-8s  %s", NameOf(finding.weight), finding.line));
  }
  if (answer.training.has_value()) json["training_memory"] = TrainingJson(*answer.training);
  PrintAnswer(options.json, json, lines);
  return fit ? kDone : kFailed;
}

}  // namespace

void AddCheckVerb(CommandLine& command_line) {
  const auto options = std::make_shared<CheckOptions>();
  const Verb verb = command_line.AddVerb(
      "check",
      "Say whether this machine can take part in a run\n"
      "Disk, memory, cores, GPUs, clock, addresses. A token tells where its coordinator is; then "
      "the line to it, an inner step of its run and the bytes of a day are measured too, which "
      "takes some ten seconds.",
      "atoll check --dir ~/atoll", [options] { return Check(*options); });
  const auto [token, token_file] =
      AddTokenArgument(verb, options->token, "A token of the run to join; it is read, not used up");
  const Option config =
      verb.Add("--config", options->config, "The config of a peer that has joined, or of a run")
          .File();
  const Option dir = verb.Add("--dir", options->dir, "Where all of it would live").Folder();
  const Option advertise =
      verb.Add("--advertise", options->advertise,
               "HOST:PORT where others would reach this machine; without it, it dials out");
  const Option listen =
      verb.Add("--listen", options->listen,
               "Where it would listen [all addresses at the port of --advertise]");
  const Option data = verb.Add("--data", options->brought.data,
                               "What it would train on, as for `atolld join`; the next three too")
                          .Path();
  const Option tokenizer =
      verb.Add("--tokenizer", options->brought.tokenizer, "The tokenizer's file").File();
  const Option base =
      verb.Add("--base", options->brought.base, "The model beneath the run's adapters").Path();
  const Option program = verb.Add("--program", options->brought.program,
                                  "The worker of an external model, or the TorchScript file")
                             .File();
  for (const Option other :
       {token, token_file, dir, advertise, listen, data, tokenizer, base, program}) {
    config.Excludes(other);
  }
  verb.Flag("--quick", options->quick, "Measure neither the line nor an inner step");
  verb.Flag("--json", options->json, "Print as JSON");
}

}  // namespace atolld
