#include "daemon/exchange/exchange_server.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "compression/base/status_macros.h"
#include "daemon/exchange/started_call.h"

namespace atolld {
namespace {

// Streams that wait for their Open, and streams that wait for their plan: each at most so many.
constexpr size_t kMaxWaiting = 256;
// Of these by one caller: several times the most lanes that there can be.
constexpr size_t kMostCallsOfOne = 64;

// (epoch, version): the order in which entries can follow each other.
using Key = std::pair<uint64_t, uint64_t>;

}  // namespace

struct ExchangeServer::State {
  struct Waiting {
    std::unique_ptr<Call> call;
    std::string caller;  // empty: plain text
    bool opened = false;
    v1::ExchangeOpen open;
    absl::Time opened_at;
  };

  State(Env environment, std::string run, absl::Duration timeout)
      : env(environment),
        run_id(std::move(run)),
        failure_timeout(timeout),
        refusals(environment.executor) {}

  void Accept(std::unique_ptr<Call> call);
  void OnOpen(uint64_t number, const Frame& frame);
  void Route(uint64_t number);
  void Refuse(uint64_t number, absl::Status why);
  void SetCurrent(Exchange* exchange);
  bool Full(bool opened, const std::string& caller) const;

  Env env;
  const std::string run_id;
  const absl::Duration failure_timeout;

  Exchange* current = nullptr;
  Key newest = {0, 0};  // of all that were current
  uint64_t accepted = 0;
  std::map<uint64_t, Waiting> waiting;  // in the order of arrival
  Refusals refusals;
  CallbackGuard guard;
};

void ExchangeServer::State::Accept(std::unique_ptr<Call> call) {
  const uint64_t number = ++accepted;
  auto started = std::make_unique<StartedCall>(env.executor, std::move(call));
  Call* const raw = started.get();
  const std::optional<Identity> identity = raw->identity();
  const std::string caller = identity ? identity->id : "";
  const bool full = Full(false, caller);
  Waiting& stream = waiting[number];
  stream.call = std::move(started);
  stream.caller = caller;
  if (full) return Refuse(number, absl::ResourceExhaustedError("too many streams without an Open"));
  raw->Start({guard.Wrap([this, number](Frame frame) { OnOpen(number, frame); }), nullptr,
              guard.Wrap([this, number](absl::Status) {
                // Not from inside the call's own callback.
                env.executor.Post(guard.Wrap([this, number] { waiting.erase(number); }));
              })});
  raw->Read();
  env.executor.RunAfter(failure_timeout, guard.Wrap([this, number] {
    const auto found = waiting.find(number);
    if (found == waiting.end()) return;
    Refuse(number, absl::FailedPreconditionError(found->second.opened
                                                     ? "the plan of its entry has not arrived here"
                                                     : "its Open has not arrived"));
  }));
}

// Whether one more would be too many: of all, or of this caller.
bool ExchangeServer::State::Full(bool opened, const std::string& caller) const {
  size_t all = 0;
  size_t own = 0;
  for (const auto& [number, stream] : waiting) {
    if (stream.opened != opened) continue;
    ++all;
    own += !caller.empty() && stream.caller == caller ? 1 : 0;
  }
  return all >= kMaxWaiting || own >= kMostCallsOfOne;
}

void ExchangeServer::State::OnOpen(uint64_t number, const Frame& frame) {
  const auto found = waiting.find(number);
  if (found == waiting.end()) return;
  v1::ToReducer message;
  const absl::Status status = Unpack(frame, &message);
  if (!status.ok() || !message.has_open()) {
    return Refuse(number, absl::InvalidArgumentError("a stream begins with an Open"));
  }
  if (message.open().run_id() != run_id) {
    return Refuse(number, absl::InvalidArgumentError(
                              absl::StrCat("this peer is in run ", run_id, ", not in run ",
                                           message.open().run_id().substr(0, 64))));
  }
  const std::string& caller = found->second.caller;
  if (!caller.empty() && caller != message.open().contributor()) {
    return Refuse(number, absl::PermissionDeniedError(
                              absl::StrCat("peer ", caller, " opens a stream of ",
                                           message.open().contributor().substr(0, 64))));
  }
  const bool full = Full(true, caller);
  found->second.opened = true;
  found->second.open = std::move(*message.mutable_open());
  found->second.opened_at = env.executor.Now();
  Route(number);
  if (full && waiting.count(number) != 0) {
    Refuse(number, absl::ResourceExhaustedError("too many streams wait for their plan"));
  }
}

// Hands the stream on or refuses it; leaves it waiting if its plan may still come.
void ExchangeServer::State::Route(uint64_t number) {
  const auto found = waiting.find(number);
  const Key key(found->second.open.epoch(), found->second.open.version());
  if (current != nullptr && key == newest) {
    auto node = waiting.extract(found);
    Waiting& stream = node.mapped();
    return current->Accept(stream.open, std::move(stream.call), stream.opened_at);
  }
  if (key < newest) {
    return Refuse(number, absl::FailedPreconditionError(
                              absl::StrCat("round ", key.second, " of epoch ", key.first,
                                           " is over; this peer is in round ", newest.second,
                                           " of epoch ", newest.first)));
  }
}

void ExchangeServer::State::Refuse(uint64_t number, absl::Status why) {
  auto node = waiting.extract(number);
  refusals.Refuse(std::move(node.mapped().call), std::move(why));
}

void ExchangeServer::State::SetCurrent(Exchange* exchange) {
  current = exchange;
  if (current == nullptr) return;
  newest = std::max(newest, Key(current->epoch(), current->version()));
  std::vector<uint64_t> numbers;
  for (const auto& [number, stream] : waiting) {
    if (stream.opened) numbers.push_back(number);
  }
  for (const uint64_t number : numbers) Route(number);
}

ExchangeServer::ExchangeServer(Env env, std::string run_id, absl::Duration failure_timeout)
    : state_(std::make_shared<State>(env, std::move(run_id), failure_timeout)) {}

ExchangeServer::~ExchangeServer() = default;

void ExchangeServer::Accept(std::unique_ptr<Call> call) { state_->Accept(std::move(call)); }

void ExchangeServer::SetCurrent(Exchange* exchange) { state_->SetCurrent(exchange); }

}  // namespace atolld
