#include "daemon/coordinator/admin_service.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "compression/base/status_macros.h"

namespace atolld {
namespace {

constexpr char kShowRun[] = "/atolld.v1.Admin/ShowRun";
constexpr char kWatchRun[] = "/atolld.v1.Admin/WatchRun";
constexpr char kListHeaders[] = "/atolld.v1.Admin/ListHeaders";
constexpr char kPauseRun[] = "/atolld.v1.Admin/PauseRun";
constexpr char kResumeRun[] = "/atolld.v1.Admin/ResumeRun";
constexpr char kStopRun[] = "/atolld.v1.Admin/StopRun";
constexpr char kDrainPeer[] = "/atolld.v1.Admin/DrainPeer";
constexpr char kEvictPeer[] = "/atolld.v1.Admin/EvictPeer";
constexpr char kListAccounts[] = "/atolld.v1.Admin/ListAccounts";
constexpr char kIssueReceipt[] = "/atolld.v1.Admin/IssueReceipt";
constexpr absl::string_view kAdminMethods[] = {
    kShowRun, kWatchRun,  kListHeaders, kPauseRun,     kResumeRun,
    kStopRun, kDrainPeer, kEvictPeer,   kListAccounts, kIssueReceipt};

// Lines kept for a later watcher.
constexpr size_t kEventsKept = 200;

// People and scripts ask; hundreds of calls would be a mistake.
constexpr size_t kMostAdminCalls = 64;

constexpr uint32_t kMostHeaders = 1000;
constexpr size_t kLargestAnswer = size_t{3} << 20;  // below the 4 MiB limit of a message

// In one answer; each round has about 150 bytes.
constexpr size_t kMostRounds = 1000;
constexpr size_t kMostEvaluations = 1000;

// A watcher that does not read is dropped above this.
constexpr size_t kMostUnsentStatus = size_t{16} << 20;
// A watcher that still needs the history gets no more of it above this.
constexpr size_t kMostUnsentHistory = size_t{1} << 20;

constexpr absl::Duration kDefaultInterval = absl::Milliseconds(500);

}  // namespace

struct AdminService::AdminCall {
  uint64_t id = 0;
  std::string method;
  std::unique_ptr<Call> call;
  bool watching = false;
  bool ending = false;  // of its watch, by EndWatches
  bool finished = false;
  bool scheduled = false;
  absl::Duration interval = kDefaultInterval;
  absl::Time last_sent = absl::InfinitePast();
  Position position;  // of a watch

  void Finish(const absl::Status& status) {
    if (finished) return;
    finished = true;
    watching = false;
    call->Finish(status);
  }
};

AdminService::AdminService(Env env, Source source) : env_(env), source_(std::move(source)) {}

AdminService::~AdminService() = default;

bool AdminService::Accept(const std::string& method, std::unique_ptr<Call>* call) {
  if (std::find(std::begin(kAdminMethods), std::end(kAdminMethods), method) ==
      std::end(kAdminMethods))
    return false;
  const uint64_t id = ++next_id_;
  auto admin_call = std::make_unique<AdminCall>();
  admin_call->id = id;
  admin_call->method = method;
  admin_call->call = std::move(*call);
  AdminCall& taken = *(calls_[id] = std::move(admin_call));
  Call::Events events;
  events.on_frame = guard_.Wrap([this, id](const Frame& frame) { OnRequest(id, frame); });
  // Later: a call is not destroyed from inside its own callback.
  events.on_closed = guard_.Wrap([this, id](const absl::Status&) {
    env_.executor.Post(guard_.Wrap([this, id] { Remove(id); }));
  });
  taken.call->Start(std::move(events));
  if (calls_.size() > kMostAdminCalls) {
    taken.Finish(absl::ResourceExhaustedError("too many admin calls at once"));
  } else {
    taken.call->Read();  // the request; a half-close needs no answer, so nothing more is read
  }
  return true;
}

AdminService::AdminCall* AdminService::Find(uint64_t id) {
  const auto it = calls_.find(id);
  return it == calls_.end() ? nullptr : it->second.get();
}

void AdminService::Remove(uint64_t id) {
  calls_.erase(id);
  TellWhenWatchesHaveEnded();
}

void AdminService::OnRequest(uint64_t id, const Frame& frame) {
  AdminCall* call = Find(id);
  if (call == nullptr || call->finished) return;
  absl::Status parsed;
  if (call->method == kShowRun) {
    v1::ShowRunRequest request;
    parsed = Unpack(frame, &request);
    if (parsed.ok()) Show(*call, request);
  } else if (call->method == kWatchRun) {
    v1::WatchRunRequest request;
    parsed = Unpack(frame, &request);
    if (parsed.ok()) Watch(*call, request);
  } else if (call->method == kListHeaders) {
    v1::ListHeadersRequest request;
    parsed = Unpack(frame, &request);
    if (parsed.ok()) List(id, request);
  } else if (call->method == kListAccounts) {
    v1::ListAccountsRequest request;
    parsed = Unpack(frame, &request);
    if (parsed.ok()) ListAccounts(id, request);
  } else if (call->method == kIssueReceipt) {
    v1::IssueReceiptRequest request;
    parsed = Unpack(frame, &request);
    if (parsed.ok()) IssueReceipt(id, request);
  } else {
    parsed = Order(id, call->method, frame);
  }
  if (!parsed.ok()) call->Finish(parsed);
}

template <typename Response>
void AdminService::AnswerOnce(uint64_t id, const absl::StatusOr<Response>& response) {
  AdminCall* call = Find(id);
  if (call == nullptr || call->finished) return;
  if (response.ok()) call->call->Write(Pack(*response));
  call->Finish(response.status());
}

void AdminService::ListAccounts(uint64_t id, const v1::ListAccountsRequest& request) {
  using Response = absl::StatusOr<v1::ListAccountsResponse>;
  source_.accounts(request,
                   guard_.Wrap([this, id](const Response& response) { AnswerOnce(id, response); }));
}

void AdminService::IssueReceipt(uint64_t id, const v1::IssueReceiptRequest& request) {
  using Response = absl::StatusOr<v1::Receipt>;
  source_.receipt(request.peer(),
                  guard_.Wrap([this, id](const Response& response) { AnswerOnce(id, response); }));
}

absl::Status AdminService::Order(uint64_t id, const std::string& method, const Frame& frame) {
  RunOrder order;
  if (method == kPauseRun) {
    v1::PauseRunRequest request;
    RETURN_IF_ERROR(Unpack(frame, &request));
    order = {RunOrder::Verb::kPause, "", request.reason()};
  } else if (method == kResumeRun) {
    v1::ResumeRunRequest request;
    RETURN_IF_ERROR(Unpack(frame, &request));
    order.verb = RunOrder::Verb::kResume;
  } else if (method == kStopRun) {
    v1::StopRunRequest request;
    RETURN_IF_ERROR(Unpack(frame, &request));
    order = {RunOrder::Verb::kStop, "", request.reason()};
  } else if (method == kDrainPeer) {
    v1::DrainPeerRequest request;
    RETURN_IF_ERROR(Unpack(frame, &request));
    order = {RunOrder::Verb::kDrain, request.peer(), request.reason()};
  } else {
    v1::EvictPeerRequest request;
    RETURN_IF_ERROR(Unpack(frame, &request));
    order = {request.undo() ? RunOrder::Verb::kReadmit : RunOrder::Verb::kEvict, request.peer(),
             request.reason()};
  }
  source_.try_store(guard_.Wrap([this, id, order](const absl::Status& kept) {
    if (!kept.ok()) return Answer(id, order.peer, NotKept(kept), "");
    source_.obey(order, guard_.Wrap([this, id, peer = order.peer](absl::Status status,
                                                                  const std::string& notice) {
      Answer(id, peer, status, notice);
    }));
  }));
  return absl::OkStatus();
}

absl::Status NotKept(const absl::Status& why) {
  return Annotate(why, "nothing has changed, since it could not be stored");
}

void AdminService::Answer(uint64_t id, const std::string& peer, const absl::Status& status,
                          const std::string& notice) {
  AdminCall* call = Find(id);
  if (call == nullptr || call->finished) return;
  if (!status.ok()) return call->Finish(status);
  const v1::RunStatus run = source_.status();
  if (peer.empty()) {
    call->call->Write(Pack(run));
  } else {
    v1::PeerStatus answer;
    for (const v1::PeerStatus& known : run.peers()) {
      if (known.member().peer() == peer) answer = known;
    }
    answer.set_notice(notice);
    call->call->Write(Pack(answer));
  }
  call->Finish(absl::OkStatus());
}

v1::RunStatus AdminService::Status() const {
  v1::RunStatus status = source_.status();
  uint64_t tokens = 0;
  uint64_t recorded = 0;
  for (const v1::RoundRecord& round : source_.rounds()) {
    if (round.version() > status.version()) break;  // not durable yet
    tokens += round.tokens();
    ++recorded;
  }
  status.set_tokens(tokens);
  status.set_rounds_recorded(recorded);
  return status;
}

void AdminService::Show(AdminCall& call, const v1::ShowRunRequest& request) {
  v1::RunStatus status = Status();
  const std::vector<v1::RoundRecord>& rounds = source_.rounds();
  const size_t limit =
      request.limit() == 0 ? kMostRounds : std::min<size_t>(request.limit(), kMostRounds);
  size_t end = status.rounds_recorded();
  size_t begin = end - std::min(end, limit);
  if (request.first_version() != 0) {
    begin = 0;
    while (begin < end && rounds[begin].version() < request.first_version()) ++begin;
    end = std::min(end, begin + limit);
  }
  for (size_t i = begin; i < end; ++i) *status.add_rounds() = rounds[i];
  // Version 0 is of no round: it belongs to the first.
  const bool from_the_start = begin == 0 && request.first_version() <= 1;
  const bool to_the_end = end == status.rounds_recorded();
  for (const v1::EvaluationRecord& evaluation : source_.evaluations()) {
    const bool begun =
        from_the_start || (begin < end ? evaluation.version() >= rounds[begin].version()
                                       : evaluation.version() >= request.first_version());
    const bool ended =
        !to_the_end && (begin == end || evaluation.version() > rounds[end - 1].version());
    if (begun && !ended) *status.add_evaluations() = evaluation;
  }
  for (const std::string& event : events_) status.add_events(event);
  call.call->Write(Pack(status));
  call.Finish(absl::OkStatus());
}

void AdminService::Watch(AdminCall& call, const v1::WatchRunRequest& request) {
  if (request.interval_milliseconds() != 0) {
    call.interval = std::clamp(absl::Milliseconds(request.interval_milliseconds()),
                               absl::Milliseconds(100), absl::Seconds(10));
  }
  call.watching = true;
  SendStatus(call);
}

void AdminService::List(uint64_t id, const v1::ListHeadersRequest& request) {
  const uint32_t limit =
      request.limit() == 0 ? kMostHeaders : std::min(request.limit(), kMostHeaders);
  source_.headers(request.first_version(), limit,
                  guard_.Wrap([this, id](absl::StatusOr<std::vector<v1::EntryHeader>> headers) {
                    AdminCall* call = Find(id);
                    if (call == nullptr || call->finished) return;
                    if (!headers.ok()) {
                      call->Finish(headers.status());
                      return;
                    }
                    v1::ListHeadersResponse response;
                    size_t bytes = 0;
                    for (v1::EntryHeader& header : *headers) {
                      bytes += header.ByteSizeLong();
                      if (bytes > kLargestAnswer && response.headers_size() > 0) break;
                      *response.add_headers() = std::move(header);
                    }
                    call->call->Write(Pack(response));
                    call->Finish(absl::OkStatus());
                  }));
}

v1::RunStatus AdminService::NewsSince(Position* position) const {
  v1::RunStatus status = Status();
  const std::vector<v1::RoundRecord>& rounds = source_.rounds();
  const size_t round_end =
      std::min<size_t>(status.rounds_recorded(), position->rounds + kMostRounds);
  for (size_t& i = position->rounds; i < round_end; ++i) *status.add_rounds() = rounds[i];
  const std::vector<v1::EvaluationRecord>& evaluations = source_.evaluations();
  const size_t evaluation_end =
      std::min(evaluations.size(), position->evaluations + kMostEvaluations);
  for (size_t& i = position->evaluations; i < evaluation_end; ++i)
    *status.add_evaluations() = evaluations[i];
  position->behind = round_end < status.rounds_recorded() || evaluation_end < evaluations.size();
  if (position->behind) status.clear_seal();
  for (uint64_t i = std::max(position->events, first_event_); i < first_event_ + events_.size();
       ++i) {
    status.add_events(events_[i - first_event_]);
  }
  position->events = first_event_ + events_.size();
  return status;
}

void AdminService::SendStatus(AdminCall& call) {
  const v1::RunStatus status = NewsSince(&call.position);
  call.last_sent = env_.executor.Now();
  call.call->Write(Pack(status));
  if (call.position.behind && call.watching && !call.scheduled) Schedule(call.id);
}

void AdminService::Follow(absl::Duration interval, std::function<void(const v1::RunStatus&)> told) {
  follower_interval_ = interval;
  follower_ = std::move(told);
  TellFollower();
}

void AdminService::TellFollower() {
  follower_(NewsSince(&follower_position_));
  env_.executor.RunAfter(follower_position_.behind ? absl::ZeroDuration() : follower_interval_,
                         guard_.Wrap([this] { TellFollower(); }));
}

void AdminService::Cut(const std::function<bool(const Identity&)>& who, const absl::Status& why) {
  for (const auto& [id, call] : calls_) {
    const std::optional<Identity> caller = call->call->identity();
    if (caller && who(*caller)) call->Finish(why);
  }
}

void AdminService::AddEvent(const std::string& line) {
  events_.push_back(line);
  if (events_.size() <= kEventsKept) return;
  events_.pop_front();
  ++first_event_;
}

void AdminService::Changed() {
  for (const auto& [id, call] : calls_) {
    if (call->watching && !call->scheduled) Schedule(id);
  }
}

void AdminService::EndWatches(absl::Duration patience, Task done) {
  if (follower_) {
    do {
      follower_(NewsSince(&follower_position_));
    } while (follower_position_.behind);
  }
  for (const auto& [id, call] : calls_) {
    if (!call->watching) continue;
    call->watching = false;
    do {
      SendStatus(*call);
    } while (call->position.behind);
    call->ending = true;
    call->Finish(absl::OkStatus());
  }
  watches_ended_ = std::move(done);
  env_.executor.RunAfter(patience, guard_.Wrap([this] {
    if (watches_ended_) std::exchange(watches_ended_, nullptr)();
  }));
  env_.executor.Post(guard_.Wrap([this] { TellWhenWatchesHaveEnded(); }));
}

void AdminService::TellWhenWatchesHaveEnded() {
  const bool ending = std::any_of(calls_.begin(), calls_.end(),
                                  [](const auto& entry) { return entry.second->ending; });
  if (!ending && watches_ended_) std::exchange(watches_ended_, nullptr)();
}

void AdminService::Schedule(uint64_t id) {
  AdminCall* call = Find(id);
  call->scheduled = true;
  const bool at_once = call->position.behind && call->call->unsent_bytes() <= kMostUnsentHistory;
  const absl::Duration wait =
      at_once
          ? absl::ZeroDuration()
          : std::max(absl::ZeroDuration(), call->last_sent + call->interval - env_.executor.Now());
  env_.executor.RunAfter(wait, guard_.Wrap([this, id] {
    AdminCall* due = Find(id);
    if (due == nullptr || !due->watching) return;
    due->scheduled = false;
    if (due->position.behind && due->call->unsent_bytes() > kMostUnsentHistory) {
      due->last_sent = env_.executor.Now();
      return Schedule(id);
    }
    if (due->call->unsent_bytes() > kMostUnsentStatus) {
      due->Finish(absl::ResourceExhaustedError("the watcher does not read"));
      return;
    }
    SendStatus(*due);
  }));
}

}  // namespace atolld
