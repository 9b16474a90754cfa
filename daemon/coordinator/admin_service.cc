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
constexpr absl::string_view kAdminMethods[] = {kShowRun,   kWatchRun, kListHeaders, kPauseRun,
                                               kResumeRun, kStopRun,  kDrainPeer,   kEvictPeer};

// Lines kept for whoever looks later.
constexpr size_t kEventsKept = 200;

// People and scripts look on; hundreds of them would be a mistake.
constexpr size_t kMostAdminCalls = 64;

constexpr uint32_t kMostHeaders = 1000;
constexpr size_t kLargestAnswer = size_t{3} << 20;  // below the 4 MiB limit of a message

// A watcher that does not read is dropped above this.
constexpr size_t kMostUnsentStatus = size_t{16} << 20;

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
  size_t rounds_sent = 0;
  size_t evaluations_sent = 0;
  uint64_t events_sent = 0;  // number of the first event that it has not seen

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
  taken.call->Start({guard_.Wrap([this, id](const Frame& frame) { OnRequest(id, frame); }), nullptr,
                     guard_.Wrap([this, id](const absl::Status&) {
                       // Later: a call is not destroyed from inside its own callback.
                       env_.executor.Post(guard_.Wrap([this, id] { Remove(id); }));
                     })});
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
    if (parsed.ok()) Show(*call);
  } else if (call->method == kWatchRun) {
    v1::WatchRunRequest request;
    parsed = Unpack(frame, &request);
    if (parsed.ok()) Watch(*call, request);
  } else if (call->method == kListHeaders) {
    v1::ListHeadersRequest request;
    parsed = Unpack(frame, &request);
    if (parsed.ok()) List(id, request);
  } else {
    parsed = Order(id, call->method, frame);
  }
  if (!parsed.ok()) call->Finish(parsed);
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
  const std::string peer = order.peer;
  source_.obey(order, guard_.Wrap([this, id, peer](absl::Status status, const std::string& notice) {
    Answer(id, peer, status, notice);
  }));
  return absl::OkStatus();
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

void AdminService::Show(AdminCall& call) {
  SendStatus(call);
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

void AdminService::SendStatus(AdminCall& call) {
  v1::RunStatus status = source_.status();
  const std::vector<v1::RoundRecord>& rounds = source_.rounds();
  uint64_t tokens = 0;
  for (size_t i = 0; i < rounds.size() && rounds[i].version() <= status.version(); ++i) {
    tokens += rounds[i].tokens();
    if (i < call.rounds_sent) continue;
    *status.add_rounds() = rounds[i];
    call.rounds_sent = i + 1;
  }
  status.set_tokens(tokens);
  const std::vector<v1::EvaluationRecord>& evaluations = source_.evaluations();
  for (size_t& i = call.evaluations_sent; i < evaluations.size(); ++i)
    *status.add_evaluations() = evaluations[i];
  for (uint64_t i = std::max(call.events_sent, first_event_); i < first_event_ + events_.size();
       ++i) {
    status.add_events(events_[i - first_event_]);
  }
  call.events_sent = first_event_ + events_.size();
  call.last_sent = env_.executor.Now();
  call.call->Write(Pack(status));
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
  for (const auto& [id, call] : calls_) {
    if (!call->watching) continue;
    SendStatus(*call);
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
  const absl::Duration wait =
      std::max(absl::ZeroDuration(), call->last_sent + call->interval - env_.executor.Now());
  env_.executor.RunAfter(wait, guard_.Wrap([this, id] {
    AdminCall* due = Find(id);
    if (due == nullptr || !due->watching) return;
    due->scheduled = false;
    if (due->call->unsent_bytes() > kMostUnsentStatus) {
      due->Finish(absl::ResourceExhaustedError("the watcher does not read"));
      return;
    }
    SendStatus(*due);
  }));
}

}  // namespace atolld
