// CoordinatorProcess: a coordinator's process from its start to its end, with its dashboard and the
// aggregator process that it may start. A single coordinator leads from its start. If there are
// several, each waits until it becomes the leader, and waits again after another coordinator has
// become the leader.
//
// Used on the loop thread. The events of Leadership come from another thread and are posted to the
// loop.
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
#include "daemon/coordinator/tracker_process.h"
#include "daemon/env/process_figures.h"
#include "daemon/env/service_notices.h"
#include "daemon/etcd/etcd_place.h"
#include "daemon/etcd/leadership.h"
#include "daemon/identity/authority.h"
#include "daemon/web/run_board.h"

namespace atolld {

class CoordinatorProcess {
 public:
  // `authority` is null if connections are in plain text. All arguments must outlive this object.
  CoordinatorProcess(Machine& machine, const Config& config, const std::string& dir,
                     Authority* authority);

  // Runs the loop until a signal ends it, or until the run is sealed if the config asks for that.
  // Returns the error if the process could not start.
  absl::Status Run(const std::string& config_file);

 private:
  absl::Status LeadAlone();
  absl::Status LeadInTurn();
  absl::Status WaitForTurn();
  // Fails with ABORTED if another coordinator is the leader.
  absl::Status Lead(std::unique_ptr<Store> store, bool alone);
  Leadership::Settings LeadershipSettings(EtcdPlace place) const;
  Leadership::Events LeadershipEvents();
  void End();
  void Finish(TrackerProcess& tracker);  // waits a while for its last figures
  void Tick();  // Called repeatedly while this process is the leader among several coordinators.
  std::string Doing() const;

  Machine& machine_;
  const Config& config_;
  const std::string dir_;
  Authority* const authority_;
  ServiceNotices notices_;
  RunBoard board_;
  const ProcessSampler sampler_;

  bool ended_ = false;
  bool ready_ = false;  // True once the service manager was notified that the process is ready.
  bool shown_ = false;  // True once the run is shown on a dashboard.
  Coordinator* coordinator_ = nullptr;  // Null unless this process is the leader.
  // Only used with several coordinators.
  // The newest term of this process as the leader, which may be over.
  std::shared_ptr<LeaderTerm> term_;
  std::string lost_;    // Why the term has ended; empty if it has not.
  std::string leader_;  // The address of the leader, if that is another process.
  absl::Status failed_;
  CallbackGuard guard_;
};

}  // namespace atolld
