// AdminService: answers what operators and the command line ask - ShowRun, WatchRun, ListHeaders -
// and passes on what they order: PauseRun, ResumeRun, StopRun, DrainPeer, EvictPeer.
//
// It shows only what is durable, and answers an order when its effect is. A watcher gets everything
// first and then, at most every interval, what is new to it. Loop thread; headers are read on the
// pool.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "atoll/v1/admin.pb.h"
#include "daemon/env/env.h"
#include "membership/run/run_output.h"

namespace atolld {

class AdminService {
 public:
  using Obeyed = std::function<void(absl::Status, const std::string& notice)>;
  struct Source {
    // All but rounds, evaluations and events.
    std::function<v1::RunStatus()> status;
    std::function<const std::vector<v1::RoundRecord>&()> rounds;
    std::function<const std::vector<v1::EvaluationRecord>&()> evaluations;
    // Calls back on the loop, later.
    std::function<void(uint64_t first, uint32_t limit,
                       std::function<void(absl::StatusOr<std::vector<v1::EntryHeader>>)>)>
        headers;
    // Calls back on the loop when the order is durable or refused, perhaps from inside the call.
    std::function<void(const RunOrder&, Obeyed)> obey;
  };

  AdminService(Env env, Source source);
  ~AdminService();  // cancels all calls

  // True if the method is one of Admin's; then the call is taken.
  bool Accept(const std::string& method, std::unique_ptr<Call>* call);

  // Ends the calls of callers of whom it holds, with this.
  void Cut(const std::function<bool(const Identity&)>& who, const absl::Status& why);

  void AddEvent(const std::string& line);
  void Changed();  // something that a watcher would show

  // Gives every watcher what is new and ends its call with OK. `done` runs, once, when the last has
  // it, at the latest after `patience`: a watcher that does not read holds nobody up.
  void EndWatches(absl::Duration patience, Task done);

 private:
  struct AdminCall;

  void OnRequest(uint64_t id, const Frame& frame);
  void Show(AdminCall& call, const v1::ShowRunRequest& request);
  void Watch(AdminCall& call, const v1::WatchRunRequest& request);
  void List(uint64_t id, const v1::ListHeadersRequest& request);
  absl::Status Order(uint64_t id, const std::string& method, const Frame& frame);
  void Answer(uint64_t id, const std::string& peer, const absl::Status& status,
              const std::string& notice);
  void Schedule(uint64_t id);
  v1::RunStatus Status() const;  // without lists
  void SendStatus(AdminCall& call);
  void Remove(uint64_t id);
  void TellWhenWatchesHaveEnded();
  AdminCall* Find(uint64_t id);

  Env env_;
  const Source source_;
  uint64_t next_id_ = 0;
  std::map<uint64_t, std::unique_ptr<AdminCall>> calls_;
  std::deque<std::string> events_;  // the newest
  uint64_t first_event_ = 0;        // number of events_.front()
  Task watches_ended_;              // empty: nobody waits for it
  CallbackGuard guard_;
};

}  // namespace atolld
