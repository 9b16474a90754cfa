#include "daemon/atolld/coordinator_process.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/coordinator/aggregator_process.h"
#include "daemon/coordinator/sqlite_store.h"
#include "daemon/coordinator/standby_door.h"
#include "daemon/coordinator/tracker_process.h"
#include "daemon/etcd/etcd_store.h"
#include "daemon/identity/credentials.h"
#include "daemon/program/process.h"
#include "daemon/web/dashboard.h"
#include "daemon/web/metrics_page.h"

namespace atolld {
namespace {

// Twice as often as a person notices, and cheap for a thousand peers.
constexpr absl::Duration kBetweenStatuses = absl::Milliseconds(500);

// How often the loop ticks in the time of its lease: four renewals fit into it, and a tick that is
// late by a renewal's pause must not cost one.
constexpr int kTicks = 16;

// Waits until something happens, however long that takes.
constexpr absl::Duration kForEver = absl::Hours(24 * 365);

}  // namespace

CoordinatorProcess::CoordinatorProcess(Machine& machine, const Config& config,
                                       const std::string& dir, Authority* authority)
    : machine_(machine),
      config_(config),
      dir_(dir),
      authority_(authority),
      notices_(ServiceNotices::FromEnvironment()),
      board_(machine.executor.Random(), [&executor = machine.executor] { return executor.Now(); }),
      sampler_(machine.env(), config.coordinator.dir) {}

void CoordinatorProcess::End() {
  ended_ = true;
  notices_.Stopping();
  machine_.executor.Stop();
}

// Leadership only renews the lease for a loop that calls this.
void CoordinatorProcess::Tick() {
  if (coordinator_ == nullptr || term_ == nullptr) return;
  term_->Tick();
  machine_.executor.RunAfter(config_.coordinator.etcd_lease / kTicks,
                             guard_.Wrap([this] { Tick(); }));
}

std::string CoordinatorProcess::Doing() const {
  if (coordinator_ != nullptr) return coordinator_->Doing();
  if (leader_.empty()) return "waiting to lead";
  return absl::StrCat("waiting to lead, ", leader_, " does");
}

absl::Status CoordinatorProcess::Run(const std::string& config_file) {
  const auto reload = MakeReload(machine_, config_file, ConfigUse::kCoordinator, config_);
  const auto signals = WatchSignals(machine_, *reload, [this] { End(); });
  // Opened before any program that waits for the coordinator can reach it and look for the address.
  ASSIGN_OR_RETURN(const std::unique_ptr<HttpServer> http,
                   OpenHttpPort(machine_.env(), config_, ConfigUse::kCoordinator, dir_));
  if (http != nullptr) {
    ReloadHttpPort(*reload, machine_.files, *http);
    ServeDashboard(*http, board_);
    ServeRunMetrics(
        *http, [this] { return board_.Newest(); }, sampler_);
  }
  shown_ = http != nullptr;
  return config_.coordinator.store == kEtcdStoreName ? LeadInTurn() : LeadAlone();
}

absl::Status CoordinatorProcess::LeadAlone() {
  ASSIGN_OR_RETURN(auto store, SqliteStore::Open(machine_.files, config_.coordinator.dir));
  return Lead(std::move(store), /*alone=*/true);
}

absl::Status CoordinatorProcess::Lead(std::unique_ptr<Store> store, bool alone) {
  Coordinator coordinator(machine_.env(), config_, std::move(store), authority_, [this](bool make) {
    return OpenHistoryKey(machine_.files, config_.coordinator.dir, make);
  });
  RETURN_IF_ERROR(coordinator.Start());
  coordinator_ = &coordinator;
  Tick();
  if (!std::exchange(ready_, true)) {
    notices_.Ready(machine_.executor, [this] { return ServiceStatus(Doing()); });
  }
  machine_.log->SetContext(ContextOf(config_, ConfigUse::kCoordinator, coordinator.run_id()));
  if (shown_) {
    coordinator.OnStatus(kBetweenStatuses,
                         [this](const v1::RunStatus& news) { board_.Take(news); });
  }
  AggregatorProcess aggregator(
      machine_.env(), ProgramFolder() + "/atolld", config_, authority_,
      [&](const std::string& why) { coordinator.SetAggregatorTrouble(why); });
  if (config_.coordinator.aggregator == "always") aggregator.Start();
  // With several coordinators, each of their aggregators would come and go with its coordinator.
  if (config_.coordinator.aggregator == "auto" && alone) {
    coordinator.OnUnreachable([&] { aggregator.Start(); });
  }
  if (config_.coordinator.exit_when_sealed) coordinator.OnSealed([this] { End(); });
  TrackerProcess tracker(machine_.env(), ProgramFolder(), config_);
  tracker.Start();
  machine_.executor.RunUntil([this] { return ended_ || !lost_.empty(); }, kForEver);
  if (ended_) Finish(tracker);
  coordinator_ = nullptr;
  coordinator.Stop();
  return ended_ || lost_.empty() ? absl::OkStatus() : absl::AbortedError(lost_);
}

// The coordinator still answers meanwhile: the newest figures are asked of it.
void CoordinatorProcess::Finish(TrackerProcess& tracker) {
  PosixExecutor& executor = machine_.executor;
  const absl::Time until = executor.Now() + TrackerProcess::kPatience;
  tracker.End();
  // More than once: the Stop that ended the loop before ends the first call, too.
  while (tracker.running() && executor.Now() < until) {
    executor.RunUntil([&tracker] { return !tracker.running(); }, until - executor.Now());
  }
}

// -----------------------------------------------------------------------------------------------

Leadership::Settings CoordinatorProcess::LeadershipSettings(EtcdPlace place) const {
  Leadership::Settings settings;
  settings.etcd = std::move(place.access);
  settings.prefix = std::move(place.prefix);
  settings.ttl = config_.coordinator.etcd_lease;
  settings.address = config_.coordinator.address;
  if (authority_ != nullptr) settings.authority = authority_->certificate();
  return settings;
}

// Each event is posted, and is dropped once this object is destroyed.
Leadership::Events CoordinatorProcess::LeadershipEvents() {
  Leadership::Events events;
  const auto post = [this](Task task) { machine_.executor.Post(guard_.Wrap(std::move(task))); };
  events.on_leading = [this, post](std::shared_ptr<LeaderTerm> term) {
    post([this, term] { term_ = term; });
  };
  events.on_lost = [this, post](const std::shared_ptr<LeaderTerm>& term, const std::string& why) {
    post([this, term, why] {
      if (term_ == term) lost_ = why;
    });
  };
  events.on_leader = [this, post](const std::string& address) {
    post([this, address] {
      leader_ = address;
      machine_.log->Info(absl::StrCat("the coordinator at ", address, " leads; waiting"));
    });
  };
  events.on_trouble = [this, post](const std::string& what) {
    post([this, what] {
      if (what.empty()) return machine_.log->Info("etcd answers");
      machine_.log->Warning(absl::StrCat("no etcd answers: ", what));
    });
  };
  events.on_failed = [this, post](const absl::Status& why) {
    post([this, why] { failed_ = why; });
  };
  return events;
}

absl::Status CoordinatorProcess::WaitForTurn() {
  StandbyDoor door(machine_.env(), [this] { return leader_; });
  RETURN_IF_ERROR(door.Listen(config_.coordinator.listen.empty() ? config_.coordinator.address
                                                                 : config_.coordinator.listen));
  if (!std::exchange(ready_, true)) {
    notices_.Ready(machine_.executor, [this] { return ServiceStatus(Doing()); });
  }
  machine_.executor.RunUntil([this] { return ended_ || term_ != nullptr || !failed_.ok(); },
                             kForEver);
  return failed_;
}

absl::Status CoordinatorProcess::LeadInTurn() {
  ASSIGN_OR_RETURN(const EtcdPlace place, EtcdPlaceOf(machine_.files, config_));
  Leadership leadership(LeadershipSettings(place), LeadershipEvents());
  while (true) {
    RETURN_IF_ERROR(WaitForTurn());
    if (ended_) return absl::OkStatus();
    leader_.clear();
    machine_.log->Info(absl::StrCat("this coordinator leads, by ", place.prefix, " in etcd"));
    const absl::Status led =
        Lead(std::make_unique<EtcdStore>(place.access, place.prefix, term_), /*alone=*/false);
    if (ended_ || (!led.ok() && !absl::IsAborted(led))) return led;
    machine_.log->Warning(absl::StrCat("this coordinator leads no longer: ", led.message()));
    machine_.executor.RunUntil([this] { return ended_ || !lost_.empty(); }, kForEver);
    term_.reset();
    lost_.clear();
    leadership.Release();
  }
}

}  // namespace atolld
