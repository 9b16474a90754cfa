#include "daemon/peer/roster_gate.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

constexpr size_t kMostWaiting = 64;

absl::Status Evicted(const std::string& caller) {
  return absl::PermissionDeniedError(absl::StrCat("peer ", caller, " was evicted"));
}

}  // namespace

// A call that can be taken from its owner. Frames pass through it untouched.
class RosterGate::GatedCall final : public Call {
 public:
  GatedCall(Executor& executor, std::shared_ptr<LiveCalls> live, const std::string& caller,
            std::unique_ptr<Call> inner)
      : executor_(executor),
        live_(std::move(live)),
        place_(live_->emplace(caller, this)),
        remote_(inner->remote()),
        identity_(inner->identity()),
        inner_(std::move(inner)) {}
  ~GatedCall() override { live_->erase(place_); }

  void Start(Events events) override {
    const auto on_closed =
        std::make_shared<std::function<void(absl::Status)>>(std::move(events.on_closed));
    events.on_closed = [on_closed](absl::Status status) {
      // Whoever is told may destroy this call, and with it the owner of the function.
      if (const auto told = std::exchange(*on_closed, nullptr)) told(std::move(status));
    };
    on_closed_ = on_closed;
    if (inner_ != nullptr) inner_->Start(std::move(events));
  }
  void Read() override {
    if (inner_ != nullptr) inner_->Read();
  }
  void Write(Frame frame) override {
    if (inner_ != nullptr) inner_->Write(std::move(frame));
  }
  size_t unsent_bytes() const override { return inner_ == nullptr ? 0 : inner_->unsent_bytes(); }
  void Finish(absl::Status status) override {
    if (inner_ != nullptr) inner_->Finish(std::move(status));
  }
  uint64_t sent_bytes() const override { return inner_ == nullptr ? sent_ : inner_->sent_bytes(); }
  std::string remote() const override { return remote_; }
  std::optional<Identity> identity() const override { return identity_; }

  void Cut(const absl::Status& why) {
    if (inner_ == nullptr) return;
    sent_ = inner_->sent_bytes();
    inner_.reset();
    executor_.Post(guard_.Wrap([told = on_closed_, why] {
      if (told == nullptr) return;
      if (const auto function = std::exchange(*told, nullptr)) function(why);
    }));
  }

 private:
  Executor& executor_;
  const std::shared_ptr<LiveCalls> live_;
  const LiveCalls::iterator place_;
  const std::string remote_;
  const std::optional<Identity> identity_;
  std::unique_ptr<Call> inner_;  // null once cut
  std::shared_ptr<std::function<void(absl::Status)>> on_closed_;
  uint64_t sent_ = 0;
  CallbackGuard guard_;
};

RosterGate::RosterGate(Executor& executor, absl::Duration patience, Transport::Acceptor admit)
    : executor_(executor), patience_(patience), admit_(std::move(admit)), refusals_(executor) {}

RosterGate::~RosterGate() = default;

void RosterGate::Accept(const std::string& method, std::unique_ptr<Call> call) {
  const std::optional<Identity> caller = call->identity();
  if (!caller || caller->role == Role::kCoordinator) return admit_(method, std::move(call));
  if (evicted_.count(caller->id) != 0)
    return refusals_.Refuse(std::move(call), Evicted(caller->id));
  if (members_.count(caller->id) != 0) return Admit(method, caller->id, std::move(call));
  Wait(method, caller->id, std::move(call));
}

void RosterGate::Admit(const std::string& method, const std::string& caller,
                       std::unique_ptr<Call> call) {
  admit_(method, std::make_unique<GatedCall>(executor_, live_, caller, std::move(call)));
}

void RosterGate::Wait(const std::string& method, const std::string& caller,
                      std::unique_ptr<Call> call) {
  if (waiting_.size() >= kMostWaiting) {
    return refusals_.Refuse(std::move(call),
                            absl::ResourceExhaustedError("too many callers wait for a roster"));
  }
  const uint64_t number = ++waited_;
  auto held = std::make_unique<StartedCall>(executor_, std::move(call));
  held->Start({nullptr, nullptr, guard_.Wrap([this, number](const absl::Status&) {
                 executor_.Post(guard_.Wrap([this, number] { waiting_.erase(number); }));
               })});
  waiting_[number] = {method, caller, std::move(held)};
  executor_.RunAfter(patience_, guard_.Wrap([this, number, caller] {
    LetGo(number, absl::UnavailableError(absl::StrCat("peer ", caller, " is not on the roster")));
  }));
}

void RosterGate::LetGo(uint64_t number, const absl::Status& why) {
  auto node = waiting_.extract(number);
  if (!node.empty()) refusals_.Refuse(std::move(node.mapped().call), why);
}

void RosterGate::SetRoster(const v1::Roster& roster) {
  members_.clear();
  evicted_.clear();
  for (const v1::Member& member : roster.members()) {
    (member.state() == "evicted" ? evicted_ : members_).insert(member.peer());
  }
  for (const std::string& caller : evicted_) Cut(caller);
  std::vector<uint64_t> known;
  for (const auto& [number, waiting] : waiting_) {
    if (members_.count(waiting.caller) + evicted_.count(waiting.caller) != 0) {
      known.push_back(number);
    }
  }
  for (const uint64_t number : known) {
    const auto found = waiting_.find(number);
    if (found == waiting_.end()) continue;
    const std::string caller = found->second.caller;
    if (evicted_.count(caller) != 0) {
      LetGo(number, Evicted(caller));
      continue;
    }
    auto node = waiting_.extract(found);
    Admit(node.mapped().method, caller, std::move(node.mapped().call));
  }
}

// The owners are told later, from the loop, so none of them changes what is gone through here.
void RosterGate::Cut(const std::string& caller) {
  const auto [begin, end] = live_->equal_range(caller);
  for (auto it = begin; it != end; ++it) it->second->Cut(Evicted(caller));
}

}  // namespace atolld
