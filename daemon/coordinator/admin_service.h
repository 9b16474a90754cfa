// AdminService: answers what operators and the command line ask - ShowRun, WatchRun, ListHeaders,
// ListAccounts, IssueReceipt - and passes on what they order: PauseRun, ResumeRun, StopRun,
// DrainPeer, EvictPeer.
//
// It shows only what is durable, and answers an order when its effect is. A watcher gets everything
// first and then, at most every interval, what is new to it; so does a follower in this process.
// Loop thread; headers are read on the pool.
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
    // Call back on the loop, perhaps from inside the call.
    std::function<void(const v1::ListAccountsRequest&,
                       std::function<void(absl::StatusOr<v1::ListAccountsResponse>)>)>
        accounts;
    std::function<void(const std::string& peer, std::function<void(absl::StatusOr<v1::Receipt>)>)>
        receipt;
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

  // Tells `told` what a watcher is told, at once and then every interval, changed or not: what
  // follows so knows that the coordinator lives. Once.
  void Follow(absl::Duration interval, std::function<void(const v1::RunStatus&)> told);

  // Gives every watcher what is new and ends its call with OK. `done` runs, once, when the last has
  // it, at the latest after `patience`: a watcher that does not read holds nobody up.
  void EndWatches(absl::Duration patience, Task done);

 private:
  struct AdminCall;
  // What a watcher has seen.
  struct Position {
    size_t rounds = 0;
    size_t evaluations = 0;
    uint64_t events = 0;  // number of the first event that it has not seen
    bool behind = false;  // more of the history is to come at once
  };

  void OnRequest(uint64_t id, const Frame& frame);
  void Show(AdminCall& call, const v1::ShowRunRequest& request);
  void Watch(AdminCall& call, const v1::WatchRunRequest& request);
  void List(uint64_t id, const v1::ListHeadersRequest& request);
  void ListAccounts(uint64_t id, const v1::ListAccountsRequest& request);
  void IssueReceipt(uint64_t id, const v1::IssueReceiptRequest& request);
  template <typename Response>
  void AnswerOnce(uint64_t id, const absl::StatusOr<Response>& response);
  absl::Status Order(uint64_t id, const std::string& method, const Frame& frame);
  void Answer(uint64_t id, const std::string& peer, const absl::Status& status,
              const std::string& notice);
  void Schedule(uint64_t id);
  v1::RunStatus Status() const;  // without lists
  v1::RunStatus NewsSince(Position* position) const;
  void SendStatus(AdminCall& call);
  void TellFollower();
  void Remove(uint64_t id);
  void TellWhenWatchesHaveEnded();
  AdminCall* Find(uint64_t id);

  Env env_;
  const Source source_;
  uint64_t next_id_ = 0;
  std::map<uint64_t, std::unique_ptr<AdminCall>> calls_;
  std::deque<std::string> events_;  // the newest
  uint64_t first_event_ = 0;        // number of events_.front()
  Position follower_position_;
  absl::Duration follower_interval_;
  std::function<void(const v1::RunStatus&)> follower_;  // empty: there is none
  Task watches_ended_;                                  // empty: nobody waits for it
  CallbackGuard guard_;
};

}  // namespace atolld
