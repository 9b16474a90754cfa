#include "daemon/fitness/run_needs.h"

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compression/base/status_macros.h"
#include "daemon/config/config.h"
#include "daemon/config/training_memory.h"
#include "daemon/identity/credentials.h"
#include "daemon/program/format.h"
#include "daemon/replica/state/run_file_copy.h"
#include "daemon/transport/coordinator_client.h"
#include "membership/history/run_files.h"
#include "membership/run/losses.h"

namespace atolld {
namespace {

using NeedWeight = Finding::Weight;

bool IsThere(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

std::string StartOf(const std::string& digest) {
  return absl::StrCat("SHA-256 ", absl::BytesToHexString(digest.substr(0, 8)), "...");
}

std::string LimitText() {
  return absl::StrCat("the ", kLargestRunFile >> 20, " MiB that peers give to each other");
}

// Returns "version 12 of 40, validation loss 2.3104 nats a token".
std::string Reached(const v1::RunDescription& run) {
  std::string text = absl::StrCat("version ", run.version(), " of ", run.spec().rounds());
  if (run.validation_loss() != 0) {
    absl::StrAppend(&text, ", validation loss ",
                    LossText(run.validation_loss(), LossUnit(run.spec())));
  }
  return text;
}

Finding RunItself(const v1::RunDescription& run) {
  const std::string name = absl::StrCat("run: ", run.spec().run_id());
  const std::string holders = absl::StrJoin(run.holders(), ", ");
  if (!run.has_seal()) {
    return {NeedWeight::kGood,
            absl::StrCat(name, ", a model of kind ", run.spec().model().kind(), ", ",
                         run.begun() ? Reached(run) : std::string("not begun yet"))};
  }
  const std::string over = absl::StrCat(
      name, " is over: it ", run.version() < run.spec().rounds() ? "was stopped" : "ended", " at ",
      Reached(run));
  if (!holders.empty()) {
    return {NeedWeight::kDoubtful,
            absl::StrCat(over, "; joining it only fetches its model, from ", holders)};
  }
  return {
      NeedWeight::kFatal,
      absl::StrCat(over, ". No peer that has its model is here",
                   run.past_holders().empty()
                       ? std::string(" or known")
                       : absl::StrCat("; it lies with ", absl::StrJoin(run.past_holders(), ", "),
                                      ", where `atoll export` makes files of it"))};
}

Finding DataNeed(const v1::RunSpec& spec, const std::string& data) {
  const int sources = spec.data().weights_size();
  const std::string digest =
      spec.data().digest().empty() ? "" : absl::StrCat(" (", StartOf(spec.data().digest()), ")");
  if (data.empty()) {
    return {NeedWeight::kFatal,
            absl::StrCat("data: the run trains on data", digest,
                         ", of which this machine needs a copy; name it with --data",
                         sources > 1 ? absl::StrCat(": ", sources,
                                                    " files or folders with commas "
                                                    "between them, in the run's order")
                                     : std::string())};
  }
  const std::vector<std::string> paths = SourcesIn(spec, data);
  for (const std::string& path : paths) {
    if (IsThere(path)) continue;
    return {NeedWeight::kFatal, absl::StrCat("data: --data '", path, "': no such file or folder")};
  }
  if (sources > 1 && paths.size() != static_cast<size_t>(sources)) {
    return {NeedWeight::kFatal, absl::StrCat("data: the run mixes ", sources,
                                             " sources, and --data "
                                             "names ",
                                             paths.size())};
  }
  return {NeedWeight::kGood,
          absl::StrCat("data: ", data,
                       digest.empty() ? "" : absl::StrCat(", which must be the run's", digest))};
}

// Checks a file of the run that its peers give to each other, or that an option names.
Finding ListedNeed(Files& files, const v1::RunDescription& run, const std::string& role,
                   const std::string& own) {
  const v1::RunFile* const main = FindRunFile(run.spec(), role);
  const std::string option = absl::StrCat("--", role);
  if (!own.empty()) {
    const absl::StatusOr<v1::RunFile> here = ListFile(files, own, role);
    if (!here.ok()) {
      return {NeedWeight::kFatal, absl::StrCat(role, ": ", option, ": ", here.status().message())};
    }
    if (main == nullptr || here->digest() == main->digest()) {
      return {NeedWeight::kGood, absl::StrCat(role, ": ", own)};
    }
    return {NeedWeight::kFatal,
            absl::StrCat(role, ": ", option, " '", own, "' differs from the run's ",
                         Describe(*main), "; leave the option out to get that")};
  }
  for (const v1::RunFile& file : run.spec().files()) {
    if (file.role() != role || Travels(file)) continue;
    return {NeedWeight::kFatal,
            absl::StrCat(role, ": the run's ", Describe(file), " is larger than ", LimitText(),
                         "; name this machine's copy with ", option)};
  }
  if (main != nullptr) {
    return {NeedWeight::kGood,
            absl::StrCat(role, ": ", Describe(*main), " comes from the run's peers")};
  }
  if (!run.begun()) {
    return {NeedWeight::kDoubtful,
            absl::StrCat(role, ": comes with version 0, which no peer has made yet; ", option,
                         " names one that is here")};
  }
  return {NeedWeight::kFatal, absl::StrCat(role, ": the run does not list its ", role,
                                           ", so nobody gives it; name it with ", option)};
}

Finding TokenizerNeed(Files& files, const v1::RunDescription& run, const Brought& brought) {
  if (brought.tokenizer.empty() && IsThere(brought.data + "/data.json")) {
    return {NeedWeight::kGood, "tokenizer: comes with the prepared data"};
  }
  std::string file = brought.tokenizer;
  for (const char* name : {"tokenizer.json", "tokenizer.model", "characters.json"}) {
    const std::string within = absl::StrCat(brought.tokenizer, "/", name);
    if (file != brought.tokenizer || brought.tokenizer.empty() || !IsThere(within)) continue;
    file = within;
  }
  return ListedNeed(files, run, kTokenizerRole, file);
}

Finding BaseNeed(const v1::ModelSpec& model, const std::string& base) {
  const std::string what = absl::StrCat("SHA-256 ", absl::BytesToHexString(model.base_digest()));
  if (base.empty()) {
    return {
        NeedWeight::kFatal,
        absl::StrCat("base: the run trains adapters of a model (", what,
                     "), which peers do not give to each other; name the file of `atoll import` "
                     "with --base")};
  }
  const absl::StatusOr<std::string> digest = DigestOfFile(base);
  if (!digest.ok()) {
    return {NeedWeight::kFatal, absl::StrCat("base: --base: ", digest.status().message())};
  }
  if (*digest == model.base_digest()) return {NeedWeight::kGood, absl::StrCat("base: ", base)};
  return {NeedWeight::kFatal,
          absl::StrCat("base: --base '", base, "' has SHA-256 ", absl::BytesToHexString(*digest),
                       "; the run's adapters are of ", what)};
}

// Checks the folder of a Hugging Face model. The config of adapters is in the folder of their base.
Finding FolderNeed(const v1::ModelSpec& model, const std::string& folder) {
  if (folder.empty()) {
    return {NeedWeight::kFatal,
            "model: the run trains a model of Hugging Face's, which peers do not give to each "
            "other; name its folder with --base"};
  }
  const std::string config = absl::StrCat(folder, "/config.json");
  if (!IsThere(config) && !IsThere(absl::StrCat(folder, "/adapter_config.json"))) {
    return {NeedWeight::kFatal,
            absl::StrCat("model: --base '", folder,
                         "' is not a folder with a config.json, as transformers "
                         "writes it")};
  }
  if (model.file_digest().empty() || !IsThere(config)) {
    return {NeedWeight::kGood, absl::StrCat("model: ", folder)};
  }
  const absl::StatusOr<std::string> digest = DigestOfFile(config);
  if (digest.ok() && *digest == model.file_digest()) {
    return {NeedWeight::kGood, absl::StrCat("model: ", folder)};
  }
  return {NeedWeight::kFatal,
          absl::StrCat("model: the config.json of --base '", folder,
                       "' differs from the run's, which has ", StartOf(model.file_digest()))};
}

Finding WorkerNeed(const std::string& program) {
  if (program.empty()) {
    return {NeedWeight::kFatal,
            "program: the run's model is external; name the program that trains it with --program"};
  }
  if (IsThere(program)) return {NeedWeight::kGood, absl::StrCat("program: ", program)};
  return {NeedWeight::kFatal, absl::StrCat("program: --program '", program, "': no such file")};
}

// What a daemon needs for each parameter: the most that was measured (docs/sizing.md).
constexpr double kInMemory = 20, kOnDisk = 12;

// Returns what the daemon needs for a model whose size follows from its description.
Finding MemoryNeed(const v1::ModelSpec& model, const MemoryLimit& memory) {
  const auto parameters = static_cast<double>(TrainedParameters(model));
  const auto free = static_cast<double>(memory.free_bytes);
  const bool fits = memory.free_bytes == 0 || kInMemory * parameters <= free;
  const std::string line = absl::StrCat(
      "memory: the daemon needs up to ", FormatBytes(kInMemory * parameters), " for ",
      WithThousands(static_cast<uint64_t>(parameters)), " parameters, beside the training");
  if (fits) return {NeedWeight::kGood, line};
  return {NeedWeight::kDoubtful, absl::StrCat(line, "; ", FormatBytes(free),
                                              " are free. With [peer] values_in = \"disk\" it "
                                              "needs up to ",
                                              FormatBytes(kOnDisk * parameters),
                                              ", of which what does not fit lies on the disk")};
}

// Asks with the token's credentials, which are in `folder` meanwhile.
template <typename Ask>
auto WithToken(Files& files, const v1::JoinToken& token, const std::string& folder, const Ask& ask)
    -> decltype(ask(CoordinatorAccess())) {
  RETURN_IF_ERROR(
      SaveCredentials(files, folder, {token.authority(), token.certificate(), token.key()}));
  auto answer = ask(CoordinatorAccess{AddressesIn(token), folder});
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return answer;
}

Finding Useless(const std::string& option, const std::string& why) {
  return {NeedWeight::kDoubtful, absl::StrCat(option, ": --", option, " is not used: ", why)};
}

}  // namespace

std::string AddressesIn(const v1::JoinToken& token) {
  std::string addresses = token.address();
  for (const std::string& other : token.others()) absl::StrAppend(&addresses, ",", other);
  return addresses;
}

absl::StatusOr<v1::RunDescription> AskAboutRun(Files& files, const v1::JoinToken& token,
                                               const std::string& folder, const Waiting& waiting) {
  return WithToken(files, token, folder,
                   [&](const CoordinatorAccess& access) { return DescribeRun(access, waiting); });
}

absl::StatusOr<LineSpeed> MeasureLineWith(Files& files, const v1::JoinToken& token,
                                          const std::string& folder, absl::Duration patience) {
  return WithToken(files, token, folder,
                   [&](const CoordinatorAccess& access) { return MeasureLine(access, patience); });
}

std::vector<std::string> SourcesIn(const v1::RunSpec& spec, const std::string& data) {
  if (data.empty()) return {};
  if (spec.data().weights_size() < 2) return {data};
  std::vector<std::string> paths;
  for (const absl::string_view path : absl::StrSplit(data, ',')) {
    paths.emplace_back(absl::StripAsciiWhitespace(path));
  }
  return paths;
}

std::optional<TrainingFit> FitInto(const v1::RunSpec& spec, const TrainingRoom& room) {
  if (!KnowsTrainingMemory(spec.model(), room.device)) return std::nullopt;
  uint64_t limit = room.limit_bytes;
  if (limit == 0 && room.memory.free_bytes > 0) {
    const double daemon = (room.daemon_in_memory ? kInMemory : 0) *
                          static_cast<double>(TrainedParameters(spec.model()));
    const double left = static_cast<double>(room.memory.free_bytes) - daemon;
    limit = left < 1 ? 1 : static_cast<uint64_t>(left);
  }
  return FitTraining(spec, CopiesOn(room.device), limit, {room.peers, room.lora_rank});
}

Finding TrainingFinding(const v1::RunSpec& spec, const TrainingRoom& room, const TrainingFit& fit) {
  const TrainingMemory& recorded = fit.recorded;
  const std::string needs = absl::StrCat(
      "training memory: a worker needs about ", FormatBytes(recorded.bytes()),
      " on the CPU (libtorch ", FormatBytes(recorded.base_bytes), ", parameters and optimiser ",
      FormatBytes(recorded.state_bytes), ", a step ", FormatBytes(recorded.step_bytes), ")");
  const bool limited = room.limit_bytes > 0;
  const std::string place =
      limited
          ? absl::StrCat("[worker] memory = ", FormatBytes(static_cast<double>(room.limit_bytes)))
          : absl::StrCat("what is free beside the daemon (",
                         FormatBytes(static_cast<double>(room.memory.free_bytes)), " in all)");
  if (!fit.fits) {
    return {limited ? NeedWeight::kFatal : NeedWeight::kDoubtful,
            absl::StrCat(needs, ", and ", FormatBytes(fit.needed.bytes()), " with ",
                         fit.changed(spec.inner()) ? ChangeText(fit, spec.inner())
                                                   : "the least that can be chosen",
                         "; more than ", place, ": a machine with more, or a smaller model")};
  }
  if (!fit.changed(spec.inner())) {
    const bool unknown = !limited && room.memory.free_bytes == 0;
    return {NeedWeight::kGood, absl::StrCat(needs, unknown ? "" : "; fits into ",
                                            unknown ? "" : place, unknown ? "" : " as it is")};
  }
  const std::string change = absl::StrCat(ChangeText(fit, spec.inner()), ", which needs ",
                                          FormatBytes(fit.needed.bytes()));
  const std::string price = PriceText(fit, spec.inner());
  if (limited) {
    return {NeedWeight::kGood,
            absl::StrCat(needs, "; fits into ", place, " with ", change, ": ", price)};
  }
  return {NeedWeight::kDoubtful, absl::StrCat(needs, "; more than ", place, ". It would fit with ",
                                              change, ", which [worker] memory chooses: ", price)};
}

std::vector<Finding> CheckNeeds(Files& files, const v1::RunDescription& run, const Brought& brought,
                                const MemoryLimit& memory) {
  std::vector<Finding> findings = {RunItself(run)};
  if (findings[0].weight == NeedWeight::kFatal || run.role() == kAggregatorRoleName)
    return findings;
  const v1::RunSpec& spec = run.spec();
  const std::string& kind = spec.model().kind();
  const bool optional = kind == kStubKind || kind == kExternalKind;  // it reads none, or its own
  if (!IsForeign(kind) && TrainedParameters(spec.model()) > 0) {
    findings.push_back(MemoryNeed(spec.model(), memory));
    TrainingRoom room;
    room.memory = memory;
    const std::optional<TrainingFit> fit = FitInto(spec, room);
    if (fit.has_value()) findings.push_back(TrainingFinding(spec, room, *fit));
  }
  if (!optional || !brought.data.empty()) findings.push_back(DataNeed(spec, brought.data));
  if (spec.data().tokenizer() == "file") {
    findings.push_back(TokenizerNeed(files, run, brought));
  } else if (!brought.tokenizer.empty()) {
    findings.push_back(Useless("tokenizer", "the run's tokens come from no tokenizer's file"));
  }
  if (kind == kHuggingFaceKind) {
    findings.push_back(FolderNeed(spec.model(), brought.base));
  } else if (!spec.model().base_digest().empty()) {
    findings.push_back(BaseNeed(spec.model(), brought.base));
  } else if (!brought.base.empty()) {
    findings.push_back(Useless("base", "the run trains no adapters"));
  }
  if (kind == kTorchScriptKind) {
    findings.push_back(ListedNeed(files, run, kProgramRole, brought.program));
  } else if (kind == kExternalKind) {
    findings.push_back(WorkerNeed(brought.program));
  } else if (!brought.program.empty()) {
    findings.push_back(Useless("program", absl::StrCat("the run's model is of kind ", kind)));
  }
  return findings;
}

}  // namespace atolld
