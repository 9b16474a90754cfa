// AdminService: serves operators and the command line. It answers the questions ShowRun, WatchRun,
// ListHeaders, ListAccounts and IssueReceipt, and passes on the orders PauseRun, ResumeRun,
// StopRun, DrainPeer and EvictPeer.
//
// It shows only what is durable, and answers an order when its effect is durable. A watcher first
// gets the whole history and then, at most once every interval, what is new to it. A follower in
// this process gets the same. Used on the loop thread; headers are read on the pool.
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
    // The status without rounds, evaluations and events.
    std::function<v1::RunStatus()> status;
    std::function<const std::vector<v1::RoundRecord>&()> rounds;
    std::function<const std::vector<v1::EvaluationRecord>&()> evaluations;
    // Calls back on the loop, never from inside the call.
    std::function<void(uint64_t first, uint32_t limit,
                       std::function<void(absl::StatusOr<std::vector<v1::EntryHeader>>)>)>
        headers;
    // These two call back on the loop, perhaps from inside the call.
    std::function<void(const v1::ListAccountsRequest&,
                       std::function<void(absl::StatusOr<v1::ListAccountsResponse>)>)>
        accounts;
    std::function<void(const std::string& peer, std::function<void(absl::StatusOr<v1::Receipt>)>)>
        receipt;
    // Reports whether an order could be stored now (see Outbox::Try). It is called before each
    // order.
    std::function<void(std::function<void(absl::Status)>)> try_store;
    // Calls back on the loop when the order is durable or refused, perhaps from inside the call.
    std::function<void(const RunOrder&, Obeyed)> obey;
  };

  AdminService(Env env, Source source);
  ~AdminService();  // cancels all calls

  // Takes the call and returns true if the method belongs to the Admin service.
  bool Accept(const std::string& method, std::unique_ptr<Call>* call);

  // Ends the calls of all callers for which `who` returns true, with the status `why`.
  void Cut(const std::function<bool(const Identity&)>& who, const absl::Status& why);

  void AddEvent(const std::string& line);
  void Changed();  // call it when something that watchers show has changed

  // Calls `told` with what a watcher would get, immediately and then at every interval. It is
  // called even if nothing has changed, so that the follower knows that the coordinator is alive.
  // Call Follow once.
  void Follow(absl::Duration interval, std::function<void(const v1::RunStatus&)> told);

  // Sends every watcher what is new and ends its call with OK. `done` runs once: when the last
  // watcher has received it, but at the latest after `patience`, in case a watcher does not read.
  void EndWatches(absl::Duration patience, Task done);

 private:
  struct AdminCall;
  // The position of a watcher in the history.
  struct Position {
    size_t rounds = 0;
    size_t evaluations = 0;
    uint64_t events = 0;  // the number of the first event that it has not seen
    bool behind = false;  // true if more of the history is sent immediately
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
  v1::RunStatus Status() const;  // without rounds, evaluations and events
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
  std::deque<std::string> events_;  // the newest events
  uint64_t first_event_ = 0;        // the number of events_.front()
  Position follower_position_;
  absl::Duration follower_interval_;
  std::function<void(const v1::RunStatus&)> follower_;  // empty if there is none
  // The `done` of EndWatches; empty if it was not called or `done` has run.
  Task watches_ended_;
  CallbackGuard guard_;
};

// Returns the answer to an order that could not be stored.
absl::Status NotKept(const absl::Status& why);

}  // namespace atolld
