#include "daemon/cli/run_folder.h"

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "atoll/v1/run.pb.h"
#include "compression/base/status_macros.h"
#include "daemon/cli/local_layout.h"
#include "daemon/cli/run_metrics.h"
#include "daemon/config/config.h"
#include "daemon/config/run_record.h"
#include "daemon/env/posix_folder_lock.h"
#include "daemon/figures/figures.h"
#include "daemon/program/format.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/record.h"
#include "daemon/replica/state/verify.h"

namespace atolld {
namespace {

// The contents of the furthest replica.
struct Furthest {
  bool found = false;
  std::string dir;
  std::vector<LogEntryInfo> entries;
  uint64_t version() const { return entries.empty() ? 0 : entries.back().header.version(); }
};

struct PeerShare {
  uint64_t rounds = 0;
  uint64_t tokens = 0;
};

void AddPeer(const LocalProcess& process, uint64_t version, const PeerShare& share,
             v1::RunStatus* status) {
  const std::optional<pid_t> holder = HolderOf(process.dir);
  v1::PeerStatus* const peer = status->add_peers();
  peer->mutable_member()->set_peer(process.id);
  peer->mutable_member()->set_address(process.address);
  peer->mutable_member()->set_state(holder.has_value() ? "running" : "ended");
  peer->mutable_member()->set_version(version);
  peer->mutable_progress()->set_version(version);
  peer->set_role(process.role);
  peer->set_pid(static_cast<uint32_t>(holder.value_or(0)));
  peer->set_rounds_contributed(share.rounds);
  peer->set_tokens(share.tokens);
}

std::string WhatCanBeDone(Files& files, const std::string& dir, const LocalProcess& coordinator) {
  const std::optional<pid_t> holder = HolderOf(coordinator.dir);
  if (holder.has_value()) {
    return absl::StrCat("its coordinator is process ", *holder, " and does not answer at ",
                        coordinator.address, "; its log is ", coordinator.dir, "/log.txt");
  }
  const std::string command = ShellCommand({"atoll", "local", "--dir", dir});
  return absl::StrCat("no coordinator of it runs; go on with: ", command,
                      files.Exists(absl::StrCat(dir, "/", kRunConfig))
                          ? ""
                          : " --config and the config that it began with");
}

// Adds what only the run's coordinator knew: the figures that its `atoll local` left at its end, if
// they are of this version.
void AddFigures(Files& files, const std::string& dir, v1::RunStatus* status) {
  const absl::StatusOr<std::vector<nlohmann::ordered_json>> left = ReadMetrics(files, dir);
  if (!left.ok() || left->empty() || left->back()["version"] != status->version()) return;
  for (const nlohmann::ordered_json& row : *left) {
    const auto known = [&row](const char* column) -> std::optional<double> {
      const auto found = row.find(column);
      return found == row.end() ? std::nullopt : FigureOf(*found);
    };
    const auto version = row["version"].get<uint64_t>();
    const double elapsed = known("time/elapsed_seconds").value_or(0);
    if (version > 0) {
      v1::RoundRecord* const round = status->add_rounds();
      round->set_version(version);
      round->set_elapsed_seconds(elapsed);
      round->set_train_loss(known("train/loss").value_or(0));
      round->set_tokens(static_cast<uint64_t>(known("train/tokens").value_or(0)));
      round->set_contributors(static_cast<uint32_t>(known("train/contributors").value_or(0)));
      round->set_train_seconds(known("time/train_seconds").value_or(0));
      round->set_exchange_seconds(known("time/exchange_seconds").value_or(0));
      round->set_epsilon(known("privacy/epsilon").value_or(0));
    }
    const std::optional<double> loss = known("validation/loss");
    if (!loss) continue;
    v1::EvaluationRecord* const evaluation = status->add_evaluations();
    evaluation->set_version(version);
    evaluation->set_loss(*loss);
    evaluation->set_elapsed_seconds(elapsed);
  }
  if (status->rounds().empty()) return;
  status->set_elapsed_seconds(status->rounds().rbegin()->elapsed_seconds());
  status->set_rounds_recorded(static_cast<uint64_t>(status->rounds_size()));
}

absl::Status FillFromReplica(Files& files, const Furthest& furthest, v1::RunStatus* status) {
  v1::Genesis genesis;
  RETURN_IF_ERROR(ReadMessageFile(files, GenesisPath(furthest.dir), &genesis));
  *status->mutable_spec() = genesis.spec();
  status->set_parameters(genesis.manifest().elements());
  status->set_version(furthest.version());
  if (files.Exists(SealPath(furthest.dir))) {
    RETURN_IF_ERROR(ReadMessageFile(files, SealPath(furthest.dir), status->mutable_seal()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::RunStatus> RunStatusOfFolder(Files& files, const std::string& dir) {
  ASSIGN_OR_RETURN(const std::vector<LocalProcess> processes, ReadPeersFile(files, dir));
  ASSIGN_OR_RETURN(const LocalProcess coordinator, FindCoordinator(files, dir));
  Furthest furthest;
  std::map<std::string, uint64_t> versions;
  for (const LocalProcess& process : processes) {
    if (process.role != "peer" || !files.Exists(GenesisPath(process.dir))) continue;
    ASSIGN_OR_RETURN(std::vector<LogEntryInfo> entries, ListLog(files, process.dir));
    const uint64_t version = entries.empty() ? 0 : entries.back().header.version();
    versions[process.id] = version;
    if (furthest.found && version <= furthest.version()) continue;
    furthest = Furthest{true, process.dir, std::move(entries)};
  }
  v1::RunStatus status;
  if (furthest.found) {
    RETURN_IF_ERROR(FillFromReplica(files, furthest, &status));
  } else {
    ASSIGN_OR_RETURN(const Config config,
                     LoadConfig(absl::StrCat(coordinator.dir, "/config.toml"), ConfigUse::kAny));
    *status.mutable_spec() = MakeRunSpec(config);
  }
  std::map<std::string, PeerShare> shares;
  uint64_t spent = 0;
  for (const LogEntryInfo& entry : furthest.entries) {
    for (const v1::Contributor& contributor : entry.header.contributors()) {
      PeerShare& share = shares[contributor.peer()];
      ++share.rounds;
      share.tokens += contributor.tokens();
      status.set_tokens(status.tokens() + contributor.tokens());
      for (const v1::SampleRange& range : contributor.samples()) spent += range.count();
    }
  }
  for (const LocalProcess& process : processes) {
    if (process.role == "peer") AddPeer(process, versions[process.id], shares[process.id], &status);
  }
  // A log that begins later than the run does not tell all that was spent.
  const bool whole = furthest.entries.empty() || furthest.entries.front().header.version() == 1;
  if (furthest.found && whole) status.mutable_data()->set_spent(spent);
  AddFigures(files, dir, &status);
  status.set_phase(status.has_seal() ? "sealed" : "stopped");
  if (!status.has_seal()) status.set_reason(WhatCanBeDone(files, dir, coordinator));
  return status;
}

}  // namespace atolld
