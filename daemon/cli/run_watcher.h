// RunWatcher: follows a coordinator's run on a thread of its own, through its restarts.
//
// Statuses wait until they are taken; none is lost while the coordinator lives. Take from one
// thread.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "atoll/v1/admin.pb.h"
#include "daemon/cli/signals.h"
#include "daemon/transport/admin_client.h"

namespace atolld {

class RunWatcher {
 public:
  // Wakes `waker` when something can be taken. Starts at once.
  RunWatcher(CoordinatorAccess access, Waker& waker);
  ~RunWatcher();  // returns within a moment
  RunWatcher(const RunWatcher&) = delete;
  RunWatcher& operator=(const RunWatcher&) = delete;

  // What has come since the last call, in order.
  std::vector<v1::RunStatus> Take();

  // The coordinator does not answer; false before the first time it does not.
  bool away();

 private:
  void Watch();

  const CoordinatorAccess access_;
  Waker& waker_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;                   // guarded by mutex_
  AdminClient* asking_ = nullptr;       // guarded by mutex_: the thread's, while it watches
  std::vector<v1::RunStatus> waiting_;  // guarded by mutex_
  bool away_ = false;                   // guarded by mutex_
  std::thread thread_;                  // last: it uses all the others
};

}  // namespace atolld
