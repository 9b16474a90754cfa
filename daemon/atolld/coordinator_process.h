// CoordinatorProcess: a coordinator's process from its start to its end, with its dashboard and the
// aggregator beside it. Alone it leads from its start on; one of several waits until it leads, and
// again after it has lost that to another.
//
// Loop thread; the events of Leadership come from another one, and are posted.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/atolld/daemon_process.h"
#include "daemon/atolld/http_port.h"
#include "daemon/config/config.h"
#include "daemon/coordinator/coordinator.h"
#include "daemon/coordinator/store.h"
#include "daemon/env/process_figures.h"
#include "daemon/env/service_notices.h"
#include "daemon/etcd/etcd_place.h"
#include "daemon/etcd/leadership.h"
#include "daemon/identity/authority.h"
#include "daemon/web/run_board.h"

namespace atolld {

class CoordinatorProcess {
 public:
  // `authority`: null in plain text. All outlive it.
  CoordinatorProcess(Machine& machine, const Config& config, const std::string& dir,
                     Authority* authority);

  // Runs the loop until a signal ends it, or the run is sealed and the config says so. Errors: what
  // kept it from its start.
  absl::Status Run(const std::string& config_file);

 private:
  absl::Status LeadAlone();
  absl::Status LeadInTurn();
  absl::Status WaitForTurn();
  // ABORTED: another one leads.
  absl::Status Lead(std::unique_ptr<Store> store, bool alone);
  Leadership::Settings LeadershipSettings(EtcdPlace place) const;
  Leadership::Events LeadershipEvents();
  void End();
  std::string Doing() const;

  Machine& machine_;
  const Config& config_;
  const std::string dir_;
  Authority* const authority_;
  ServiceNotices notices_;
  RunBoard board_;
  const ProcessSampler sampler_;

  bool ended_ = false;
  bool ready_ = false;                  // the service manager knows
  bool shown_ = false;                  // on a dashboard
  Coordinator* coordinator_ = nullptr;  // while it leads
  // Of several coordinators.
  std::shared_ptr<LeaderTerm> term_;  // won, or lost
  std::string lost_;                  // why; empty: it is not
  std::string leader_;                // who leads, where another one does
  absl::Status failed_;
  CallbackGuard guard_;
};

}  // namespace atolld
