// `atoll run show|watch|diagnose|metrics|pause|resume|stop`, `atoll peer list|show|drain|evict`:
// questions and orders to a coordinator.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "compression/base/terminal.h"
#include "daemon/cli/diagnosis.h"
#include "daemon/cli/live_view.h"
#include "daemon/cli/local/local_report.h"
#include "daemon/cli/peer_ledger.h"
#include "daemon/cli/run_folder.h"
#include "daemon/cli/run_metrics.h"
#include "daemon/cli/run_watcher.h"
#include "daemon/cli/verbs/admin_verb.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/cli/worker_tool.h"
#include "daemon/env/posix_files.h"
#include "daemon/figures/exposition.h"
#include "daemon/figures/status_json.h"
#include "daemon/program/process.h"
#include "daemon/transport/coordinator_client.h"

namespace atolld {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(250);

// How long to wait for the peers of a sealed run.
constexpr double kSettleSeconds = 30;

// How often the folder of a run is read while its coordinator does not answer.
constexpr double kFolderLookSeconds = 2;

// Returns the coordinator's status; for a local run whose coordinator has ended, the folder's, with
// epoch 0. From a coordinator the rounds follow `from` and `limit` (AdminClient); a folder gives
// all.
absl::StatusOr<v1::RunStatus> HowItStands(const CoordinatorAddress& source, AdminClient& client,
                                          uint64_t from, uint32_t limit) {
  absl::StatusOr<v1::RunStatus> status = client.ShowRun(from, limit);
  if (source.dir.empty() || !absl::IsUnavailable(status.status())) return status;
  PosixFiles files;
  absl::StatusOr<v1::RunStatus> told = RunStatusOfFolder(files, AbsoluteFolder(source.dir));
  return told.ok() ? told : status;
}

VerbExit ShowRun(const AdminOptions& options) {
  const bool listed = options.from != 0 || options.limit != 0;
  return AskCoordinator<v1::RunStatus>(
      options,
      [&](AdminClient& client) {
        return HowItStands(options.source, client, options.from, options.limit);
      },
      RunStatusJson,
      [listed](const v1::RunStatus& status) {
        std::vector<std::string> lines = RunStatusText(status);
        if (!listed) return lines;
        lines.emplace_back();
        for (std::string& line : RoundsText(status)) lines.push_back(std::move(line));
        return lines;
      });
}

// Enough to know the usual times of its rounds.
constexpr uint32_t kRoundsToDiagnose = 16;

VerbExit DiagnoseRun(const AdminOptions& options) {
  return AskCoordinator<v1::RunStatus>(
      options,
      [&](AdminClient& client) {
        return HowItStands(options.source, client, 0, kRoundsToDiagnose);
      },
      DiagnosisJson, DiagnosisText);
}

// Returns all rounds from `from` on, in as many answers as they take.
absl::StatusOr<std::vector<v1::RunStatus>> AllRounds(const CoordinatorAddress& source,
                                                     AdminClient& client, uint64_t from) {
  std::vector<v1::RunStatus> pages;
  for (uint64_t next = std::max<uint64_t>(from, 1);;) {
    ASSIGN_OR_RETURN(pages.emplace_back(), HowItStands(source, client, next, 0));
    const v1::RunStatus& page = pages.back();
    const bool folder = page.epoch() == 0;  // tells all at once
    if (folder || page.rounds().empty() || page.rounds().rbegin()->version() >= page.version()) {
      return pages;
    }
    next = page.rounds().rbegin()->version() + 1;
  }
}

VerbExit Metrics(const AdminOptions& options) {
  ASSIGN_OR_RETURN(const CoordinatorAccess access, ResolveCoordinator(options.source));
  AdminClient client(access);
  if (options.format == "prometheus" && !options.json) {
    ASSIGN_OR_RETURN(const v1::RunStatus status, HowItStands(options.source, client, 0, 0));
    PrintLines(absl::StrSplit(Exposition(status), '\n', absl::SkipEmpty()));
    return kDone;
  }
  ASSIGN_OR_RETURN(const std::vector<v1::RunStatus> pages,
                   AllRounds(options.source, client, options.from));
  std::vector<nlohmann::ordered_json> rows = RunMetrics(pages);
  if (pages.back().epoch() == 0) {
    PosixFiles files;
    ASSIGN_OR_RETURN(std::vector<nlohmann::ordered_json> left,
                     ReadMetrics(files, AbsoluteFolder(options.source.dir)));
    rows.clear();
    for (nlohmann::ordered_json& row : left) {
      if (row["version"].get<uint64_t>() >= options.from) rows.push_back(std::move(row));
    }
  }
  const bool lines = options.json || options.format == "jsonl";
  PrintLines(
      absl::StrSplit(lines ? MetricsJsonLines(rows) : MetricsCsv(rows), '\n', absl::SkipEmpty()));
  return kDone;
}

// Returns one line about the present state.
std::vector<std::string> RunOrderText(const v1::RunStatus& status) {
  std::string line = absl::StrCat("run ", status.spec().run_id(), ": ", status.phase());
  if (status.stopping()) absl::StrAppend(&line, ", stopping");
  if (status.paused() && status.phase() != "paused") {
    absl::StrAppend(&line, ", then paused");
  }
  return {absl::StrCat(line, "; newest version ", status.version())};
}

VerbExit Order(const AdminOptions& options,
               const std::function<absl::StatusOr<v1::RunStatus>(AdminClient&)>& order) {
  return AskCoordinator<v1::RunStatus>(options, order, RunStatusJson, RunOrderText);
}

VerbExit Pause(const AdminOptions& options) {
  return Order(options, [&](AdminClient& client) { return client.PauseRun(options.reason); });
}

VerbExit Resume(const AdminOptions& options) {
  return Order(options, [](AdminClient& client) { return client.ResumeRun(); });
}

VerbExit Stop(const AdminOptions& options) {
  return Order(options, [&](AdminClient& client) { return client.StopRun(options.reason); });
}

// A run that is over cannot be followed.
VerbExit ShowWhatIsOver(const v1::RunStatus& status, const AdminOptions& options) {
  if (!options.results.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--results: the run's coordinator is gone, and nobody else tells its figures; ",
        options.source.dir, " holds what `atoll local` has left"));
  }
  PrintLines(options.json ? std::vector<std::string>{JsonLine(RunStatusJson(status))}
                          : RunStatusText(status));
  return status.has_seal() ? kDone : kFailed;
}

// One `run watch`, until it ends.
class Watching {
 public:
  Watching(const AdminOptions& options, const CoordinatorAccess& access)
      : options_(options),
        absence_(access.address, MonotonicSeconds(), absl::Now()),
        watcher_(access, waker_) {
    if (!options.json && terminal_.redraws) screen_ = std::make_unique<LiveScreen>(stdout);
  }

  // Watches until the run is sealed or the user presses Ctrl-C; it waits for a coordinator that is
  // away, but not for ever.
  VerbExit Watch() {
    double sealed_at = 0;
    while (!history_.sealed() || !Settled(sealed_at)) {
      if (signals_->Wait(waker_, kTick)) return options_.results.empty() ? kDone : kFailed;
      const double now = MonotonicSeconds();
      if (history_.sealed() && sealed_at == 0) sealed_at = now;
      const std::string line = absence_.Take(watcher_.away(), now, absl::Now());
      if (!line.empty()) Tell(line);
      for (const v1::RunStatus& status : watcher_.Take()) Show(status);
      if (const std::optional<v1::RunStatus> over = Over(now)) {
        screen_.reset();
        signals_.reset();
        return ShowWhatIsOver(*over, options_);
      }
      if (const absl::Status away = absence_.GiveUp(now); !away.ok()) {
        screen_.reset();
        signals_.reset();
        return away;
      }
      if (screen_ != nullptr) Draw();
    }
    screen_.reset();
    signals_.reset();
    RETURN_IF_ERROR(LeaveResults());
    return kDone;
  }

 private:
  // What is to be left counts on the peers' word of their last state, which they give soon after
  // the seal, if they still can.
  bool Settled(double sealed_at) const {
    if (options_.results.empty()) return true;
    if (sealed_at == 0) return false;
    if (absence_.away() || MonotonicSeconds() - sealed_at > kSettleSeconds) return true;
    const v1::RunStatus& newest = history_.newest();
    return std::all_of(newest.peers().begin(), newest.peers().end(), [&](const auto& peer) {
      return peer.state_version() >= newest.seal().version();
    });
  }

  absl::Status LeaveResults() const {
    if (options_.results.empty()) return absl::OkStatus();
    std::vector<PeerProcess> peers;
    for (const auto& [id, peer] : history_.peers()) peers.push_back({id, 0, std::nullopt});
    PosixFiles files;
    const std::string dir = AbsoluteFolder(options_.results);
    RETURN_IF_ERROR(files.MakeDirectories(dir));
    RETURN_IF_ERROR(WriteFileDurably(files, absl::StrCat(dir, "/", kMetricsFile),
                                     BytesOf(MetricsJsonLines(RunMetrics(history_)))));
    return WriteFileDurably(files, absl::StrCat(dir, "/", kReportOfRun),
                            BytesOf(ReportJson(MakeLocalReport(history_, peers))));
  }

  // Beside what is watched, so that a script's lines stay the run's.
  void Tell(const std::string& line) {
    if (screen_ != nullptr) {
      screen_->PrintAbove(line);
    } else {
      signals_->Write(STDERR_FILENO, Printable(line) + "\n");
    }
  }

  // A slow reader still gets every line; a signal does not wait for the reader.
  void Show(const v1::RunStatus& status) {
    history_.Take(status, MonotonicSeconds());
    if (options_.json) {
      signals_->Write(STDOUT_FILENO, JsonLine(RunStatusJson(status)));
      return;
    }
    const std::vector<std::string> lines = plain_.Tell(history_, status);
    if (screen_ == nullptr) {
      std::string text;
      for (const std::string& line : lines) absl::StrAppend(&text, Printable(line), "\n");
      signals_->Write(STDOUT_FILENO, text);
    } else {
      for (const std::string& event : NotableEvents(status)) screen_->PrintAbove(event);
    }
  }

  // What a local run's folder says of a run that was sealed unheard.
  std::optional<v1::RunStatus> Over(double now) {
    if (history_.sealed() || options_.source.dir.empty()) return std::nullopt;
    if (!absence_.away() || now < next_look_) return std::nullopt;
    next_look_ = now + kFolderLookSeconds;
    PosixFiles files;
    absl::StatusOr<v1::RunStatus> told =
        RunStatusOfFolder(files, AbsoluteFolder(options_.source.dir));
    if (!told.ok() || !told->has_seal()) return std::nullopt;
    return *std::move(told);
  }

  void Draw() {
    // What happens meanwhile is not known, so nothing counts on.
    const double elapsed = history_.elapsed_seconds(absence_.last_answer_seconds());
    screen_->Draw(RenderLiveView(history_, {}, elapsed, TerminalWidth(stdout), terminal_.charset));
  }

  const AdminOptions& options_;
  const Terminal terminal_ = TerminalOf(stdout);
  // Made before any thread. Once it is reset, signals have their usual effect.
  std::optional<SignalWaiter> signals_{std::in_place};
  Waker waker_;
  RunHistory history_;
  PlainLines plain_;
  AbsenceRule absence_;
  double next_look_ = 0;
  std::unique_ptr<LiveScreen> screen_;
  RunWatcher watcher_;
};

VerbExit Watch(const AdminOptions& options) {
  ASSIGN_OR_RETURN(const CoordinatorAccess access, ResolveCoordinator(options.source));
  // One question first: a wrong address is an error, not something to wait for.
  AdminClient client(access);
  ASSIGN_OR_RETURN(const v1::RunStatus first, HowItStands(options.source, client, 0, 1));
  if (first.epoch() == 0) return ShowWhatIsOver(first, options);
  return Watching(options, access).Watch();
}

}  // namespace

void AddRunVerbs(CommandLine& command_line) {
  AddAdminVerb(command_line, "run show", "Show how a run stands",
               "atoll run show --dir build/quickstart --from 1 --json", {AdminOption::kRounds},
               ShowRun);
  AddAdminVerb(command_line, "run watch", "Follow a run until it is sealed",
               "atoll run watch --dir build/quickstart", {AdminOption::kResults}, Watch);
  AddAdminVerb(command_line, "run diagnose",
               "Say what slows a run, and which setting would help\n"
               "What costs most comes first. The exit code is 0 whatever it finds.",
               "atoll run diagnose --dir build/quickstart", {}, DiagnoseRun);
  AddAdminVerb(command_line, "run metrics",
               "Print every round's figures, for notebooks and charts\n"
               "A line a version: losses, tokens, times. For Prometheus: how the run stands now.",
               "atoll run metrics --dir build/quickstart --format csv", {AdminOption::kFormat},
               Metrics);
  AddAdminVerb(command_line, "run pause",
               "Finish the exchange under way, then begin no round\n"
               "`atoll run resume` goes on.",
               "atoll run pause --dir build/quickstart --reason 'new disks'",
               {AdminOption::kReason}, Pause);
  AddAdminVerb(command_line, "run resume", "Go on with a paused run",
               "atoll run resume --dir build/quickstart", {}, Resume);
  AddAdminVerb(
      command_line, "run stop", "End a run at its newest version: it is evaluated and sealed",
      "atoll run stop --dir build/quickstart --reason 'good enough'", {AdminOption::kReason}, Stop);
}

// -----------------------------------------------------------------------------------------------

namespace {

using LedgerRows = std::vector<LedgerRow>;

// A folder's status and an older coordinator give no accounts.
absl::StatusOr<LedgerRows> AskForLedger(const AdminOptions& options, AdminClient& client) {
  ASSIGN_OR_RETURN(const v1::RunStatus status, HowItStands(options.source, client, 0, 1));
  std::vector<v1::Account> accounts;
  if (status.epoch() != 0) {
    absl::StatusOr<std::vector<v1::Account>> told = client.ListAccounts();
    if (!told.ok() && !absl::IsUnimplemented(told.status())) return told.status();
    if (told.ok()) accounts = *std::move(told);
  }
  return LedgerOf(status, accounts, options.sort, options.all);
}

VerbExit ListPeers(const AdminOptions& options) {
  return AskCoordinator<LedgerRows>(
      options, [&](AdminClient& client) { return AskForLedger(options, client); }, LedgerJson,
      LedgerText);
}

absl::StatusOr<v1::PeerStatus> FindPeer(const CoordinatorAddress& source, AdminClient& client,
                                        const std::string& name) {
  ASSIGN_OR_RETURN(const v1::RunStatus run, HowItStands(source, client, 0, 1));
  std::vector<std::string> names;
  for (const v1::PeerStatus& peer : run.peers()) {
    if (peer.member().peer() == name) return peer;
    names.push_back(peer.member().peer());
  }
  return absl::NotFoundError(UnknownNameMessage("peer", name, names));
}

VerbExit ShowPeer(const AdminOptions& options) {
  return AskCoordinator<v1::PeerStatus>(
      options, [&](AdminClient& client) { return FindPeer(options.source, client, options.peer); },
      PeerJson, PeerText);
}

// Returns what was done, and what follows from it.
std::vector<std::string> PeerOrderText(const std::string& done, const v1::PeerStatus& peer) {
  std::vector<std::string> lines = {absl::StrCat("peer ", peer.member().peer(), " ", done)};
  if (!peer.notice().empty()) lines.push_back(peer.notice());
  return lines;
}

VerbExit Drain(const AdminOptions& options) {
  return AskCoordinator<v1::PeerStatus>(
      options, [&](AdminClient& client) { return client.DrainPeer(options.peer, options.reason); },
      PeerJson,
      [](const v1::PeerStatus& peer) {
        return PeerOrderText("finishes its round, then leaves", peer);
      });
}

VerbExit Evict(const AdminOptions& options) {
  return AskCoordinator<v1::PeerStatus>(
      options,
      [&](AdminClient& client) {
        return client.EvictPeer(options.peer, options.reason, options.undo);
      },
      PeerJson,
      [&](const v1::PeerStatus& peer) {
        return PeerOrderText(options.undo ? "may come back" : "is out, and refused from now on",
                             peer);
      });
}

}  // namespace

void AddPeerVerbs(CommandLine& command_line) {
  AddAdminVerb(command_line, "peer list", "List the peers of a run and what each has given",
               "atoll peer list --dir build/quickstart --sort tokens", {AdminOption::kLedger},
               ListPeers);
  AddAdminVerb(command_line, "peer show", "Show one peer of a run",
               "atoll peer show peer-2 --dir build/quickstart", {AdminOption::kPeer}, ShowPeer);
  AddAdminVerb(command_line, "peer drain",
               "Ask a peer to finish its round, hand over and end\n"
               "The run goes on without it.",
               "atoll peer drain peer-2 --dir build/quickstart --reason 'a new disk'",
               {AdminOption::kPeer, AdminOption::kReason}, Drain);
  AddAdminVerb(command_line, "peer evict",
               "Put a peer out at once and refuse it from then on\n"
               "Its own state stays with it.",
               "atoll peer evict peer-3 --dir build/quickstart --reason 'it sends nonsense'",
               {AdminOption::kPeer, AdminOption::kReason, AdminOption::kUndo}, Evict);
}

}  // namespace atolld
