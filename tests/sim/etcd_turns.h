// EtcdTurns: the life of a simulated process that is one of a run's several coordinators. It waits
// until it leads, leads, and waits again when it has lost the leadership, in the order of
// daemon/atolld's CoordinatorProcess.
//
// That order runs in a thread of the process, which may block (SimThreads). Leadership has a thread
// of its own; its events are posted to the loop, as in production.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/coordinator/store.h"
#include "daemon/etcd/leadership.h"
#include "tests/sim/etcd_law.h"
#include "tests/sim/sim_etcd.h"
#include "tests/sim/sim_world.h"

namespace atolld {

class EtcdTurns {
 public:
  struct Settings {
    std::string prefix;  // Ends with '/'.
    absl::Duration ttl;
    std::string address;
  };
  struct Events {
    // Returns an object that lives for as long as the process waits.
    std::function<std::shared_ptr<void>()> wait;
    // Leads, in the thread, until lost() is true. Returns ABORTED if it could not begin.
    std::function<absl::Status(std::unique_ptr<Store> store)> lead;
    // Called last: the process must end, either after Stop or because of an error.
    std::function<void(const absl::Status& why)> ended;
  };

  // Begins at once. All arguments must outlive this object, which is destroyed with the process's
  // life.
  EtcdTurns(SimProcess& process, SimEtcd& etcd, EtcdLaw& law, Settings settings, Events events);

  bool lost() const { return !lost_.empty() || stopping_ || threads_.dead(); }
  // The address of the coordinator that leads instead.
  const std::string& leader() const { return leader_; }
  // The next two functions are called in the thread.
  void AwaitLost();
  void Sleep(absl::Duration wait);
  // Stops the process as SIGTERM does, so that it gives its lease back.
  void Stop();

 private:
  void Main();
  void AwaitUntil(const std::function<bool()>& condition);
  Leadership::Events LeadershipEvents();

  SimThreads& threads_;
  Executor& executor_;
  EtcdLaw& law_;
  const Settings settings_;
  const Events events_;
  const std::string who_;
  const EtcdAccess access_;

  bool stopping_ = false;
  std::shared_ptr<LeaderTerm> term_;
  std::string lost_;
  std::string leader_;
  absl::Status failed_;
  std::shared_ptr<SimThreads::Job> main_;
};

}  // namespace atolld
