#include "tests/sim/swarm_operator.h"

#include <utility>

namespace atolld {
namespace {

constexpr char kName[] = "operator";

// How long a person waits for an answer, and how soon they ask again.
constexpr absl::Duration kPatience = absl::Seconds(5);
constexpr absl::Duration kPause = absl::Milliseconds(500);

}  // namespace

void SwarmOperator::Order(const std::string& topic, const std::string& method, Frame request,
                          std::function<void()> on_done) {
  if (number_ == 0) {
    world_.network().SetIdentity(kName, {"swarm", Role::kAdmin, kName, ""});
    world_.AddProcess(kName);
  }
  auto pending = std::make_unique<Pending>();
  pending->number = ++number_;
  pending->method = "/atolld.v1.Admin/" + method;
  pending->request = std::move(request);
  pending->on_done = std::move(on_done);
  pending_[topic] = std::move(pending);
  Try(topic);
}

SwarmOperator::Pending* SwarmOperator::Find(const std::string& topic, uint64_t number) {
  const auto found = pending_.find(topic);
  return found == pending_.end() || found->second->number != number ? nullptr : found->second.get();
}

void SwarmOperator::Try(const std::string& topic) {
  Pending& pending = *pending_.at(topic);
  pending.call = world_.process(kName).env().transport.Dial(
      coordinators_[asked_ % coordinators_.size()] + ":1", pending.method, kPatience);
  Call::Events events;
  events.on_closed = [this, topic, number = pending.number](const absl::Status& status) {
    // Later: a call is not destroyed from inside its own callback.
    world_.At(absl::ZeroDuration(),
              [this, topic, number, status] { OnClosed(topic, number, status); });
  };
  pending.call->Start(std::move(events));
  pending.call->Write(pending.request);
  pending.call->Finish(absl::OkStatus());
  pending.call->Read();
}

void SwarmOperator::OnClosed(const std::string& topic, uint64_t number,
                             const absl::Status& status) {
  if (Find(topic, number) == nullptr) return;
  const bool unknown =
      absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsCancelled(status);
  if (unknown) {
    ++asked_;
    world_.At(kPause, [this, topic, number] {
      if (Find(topic, number) != nullptr) Try(topic);
    });
    return;
  }
  const std::unique_ptr<Pending> done = std::move(pending_.at(topic));
  pending_.erase(topic);
  if (status.ok() && done->on_done) done->on_done();
}

}  // namespace atolld
