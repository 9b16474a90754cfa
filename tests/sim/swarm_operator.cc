#include "tests/sim/swarm_operator.h"

#include <utility>

namespace atolld {
namespace {

constexpr char kName[] = "operator";

// How long a person waits for an answer, and how soon they ask again.
constexpr absl::Duration kPatience = absl::Seconds(5);
constexpr absl::Duration kPause = absl::Milliseconds(500);

}  // namespace

void SwarmOperator::Order(const std::string& method, Frame request, std::function<void()> on_done) {
  if (number_ == 0) world_.AddProcess(kName);
  ++number_;
  pending_ = std::make_unique<Pending>();
  pending_->method = "/atolld.v1.Admin/" + method;
  pending_->request = std::move(request);
  pending_->on_done = std::move(on_done);
  Try();
}

void SwarmOperator::Try() {
  Env env = world_.process(kName).env();
  pending_->call = env.transport.Dial("coordinator:1", pending_->method, kPatience);
  Call::Events events;
  events.on_closed = [this, number = number_](const absl::Status& status) {
    // Later: a call is not destroyed from inside its own callback.
    world_.At(absl::ZeroDuration(), [this, number, status] { OnClosed(number, status); });
  };
  pending_->call->Start(std::move(events));
  pending_->call->Write(pending_->request);
  pending_->call->Finish(absl::OkStatus());
  pending_->call->Read();
}

void SwarmOperator::OnClosed(uint64_t number, const absl::Status& status) {
  if (number != number_ || pending_ == nullptr) return;
  const bool unknown =
      absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsCancelled(status);
  if (unknown) {
    world_.At(kPause, [this, number] {
      if (number == number_ && pending_ != nullptr) Try();
    });
    return;
  }
  const std::unique_ptr<Pending> done = std::move(pending_);
  if (status.ok() && done->on_done) done->on_done();
}

}  // namespace atolld
