#include "daemon/peer/round_runner.h"

#include <algorithm>
#include <utility>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compression/base/planted_bug.h"
#include "compression/base/status_macros.h"
#include "compression/error_feedback.h"
#include "daemon/peer/residual.h"
#include "membership/history/run_codecs.h"

namespace atolld {

RoundRunner::RoundRunner(Env env, std::string self, ReplicaKeeper& keeper, Worker& trainer,
                         Events events)
    : env_(env),
      self_(std::move(self)),
      events_(std::move(events)),
      keeper_(keeper),
      trainer_(trainer),
      measure_(keeper),
      inputs_(env.executor,
              [this](const v1::InputsRequest& request) -> absl::StatusOr<std::vector<Frame>> {
                if (exchange_ != nullptr) return exchange_->Inputs(request);
                return absl::FailedPreconditionError("this peer is in no exchange");
              }),
      waker_(env) {}

RoundRunner::~RoundRunner() {
  if (server_ != nullptr) server_->SetCurrent(nullptr);
}

void RoundRunner::Follow(const v1::RunSpec& spec, uint64_t epoch, absl::Duration failure_timeout) {
  const bool successor = epoch_ != 0 && epoch != epoch_;
  if (successor) next_plan_.reset();
  epoch_ = epoch;
  failure_timeout_ = failure_timeout;
  stop_watch_.SetLongest(failure_timeout / 2);
  if (server_ == nullptr) {
    spec_ = spec;
    codecs_ = CodecsOf(spec.exchange()).value();  // the peer has checked the run before
    measure_.Follow(spec.exchange(), codecs_);
    server_ = std::make_unique<ExchangeServer>(env_, spec.run_id(), failure_timeout);
  }
  if (successor && exchange_ != nullptr) {
    env_.log.Info(absl::StrCat("round ", exchange_->version(), ": the coordinator has begun epoch ",
                               epoch, "; its exchange begins again"));
    server_->SetCurrent(nullptr);
    exchange_.reset();
    vote_.reset();
    events_.on_busy(false);
  }
  // What the coordinator may have missed while the Session was down.
  if (update_) SendReady();
  if (exchange_ != nullptr) {
    for (const v1::PeerMessage& held : held_) events_.send(held);
  }
  if (vote_) SendVote();
}

void RoundRunner::OnSessionDown() {
  next_train_.reset();  // the coordinator says all again after the next Hello
  next_plan_.reset();
  next_evaluates_.clear();
}

// -----------------------------------------------------------------------------------------------
// Training

void RoundRunner::OnTrain(const v1::Train& train) {
  if (draining_) return;
  next_train_.reset();
  if (!keeper_.has_state() || train.version() > keeper_.version() + 1) {
    next_train_ = train;  // commits are still to come, and they settle the update at hand
    return;
  }
  assigned_ = train;
  training_ = false;
  age_ = 0;
  ++training_id_;
  update_.reset();
  StartTraining();
}

// Hands the assignment to the worker once that is there.
void RoundRunner::StartTraining() {
  // A replica that is being opened anew has no theta to begin from.
  if (!assigned_ || training_ || !worker_ready_ || !keeper_.has_state()) return;
  v1::DaemonMessage message;
  v1::TrainSteps* steps = message.mutable_train();
  steps->set_version(assigned_->version());
  steps->set_first_step(assigned_->first_step());
  steps->set_steps(assigned_->steps());
  *steps->mutable_samples() = assigned_->samples();
  trainer_.Send(message);
  training_ = true;
  waker_.OnTraining();
}

void RoundRunner::OnWorkerReady() {
  worker_ready_ = true;
  StartTraining();
}

void RoundRunner::OnWorkerLost() {
  worker_ready_ = false;
  if (training_) {
    env_.log.Info(absl::StrCat("round ", assigned_->version(),
                               ": training begins again when the worker is back"));
  }
  training_ = false;
  age_ = 0;
  if (!evaluates_.empty()) {
    evaluates_.clear();
    keeper_.HoldCommits(false);
  }
}

void RoundRunner::OnProgress(const v1::WorkerProgress& progress) {
  newest_progress_ = progress;
  waker_.OnProgress(progress);
}

void RoundRunner::OnBoundary(const v1::Boundary& boundary) {
  if (!training_ || boundary.version() != assigned_->version()) return;  // a replaced Train's
  train_seconds_ += boundary.seconds();
  waker_.OnWaiting();
  Encode(boundary);
}

void RoundRunner::Encode(const v1::Boundary& boundary) {
  auto update = std::make_shared<Update>();
  auto status = std::make_shared<absl::Status>();
  const uint64_t id = training_id_;
  const bool feedback = spec_.exchange().error_feedback();
  const uint64_t first_sample =
      assigned_->samples().empty() ? boundary.version() : assigned_->samples(0).first();
  const Rounding rounding = ContributionRounding(spec_, self_, first_sample);
  keeper_.RunExclusive(
      [update, status, feedback, rounding, residual = residual_, codec = codecs_.updates.codec,
       decay = FeedbackDecay(spec_), grid = keeper_.grid(), memory = keeper_.memory()] {
        absl::Span<const float> values = memory->update();
        if (feedback) {
          update->values.assign(values.begin(), values.end());
          if (residual != nullptr) {
            *status = AddResidual(decay, *residual, absl::MakeSpan(update->values));
            if (!status->ok()) return;
          }
          values = update->values;
        }
        absl::StatusOr<Contribution> encoded = EncodeContribution(grid, *codec, rounding, values);
        *status = encoded.status();
        if (encoded.ok()) {
          update->contribution = std::make_shared<const Contribution>(*std::move(encoded));
        }
      },
      guard_.Wrap([this, update, status, boundary, id] {
        if (id != training_id_ || !assigned_) return;
        if (!status->ok()) {
          // On the same samples by the same worker it would come to the same.
          return trainer_.Restart(absl::StrCat("round ", boundary.version(),
                                               ": its update is none: ", status->message()));
        }
        trainer_.Accept();
        v1::Ready& ready = update->ready;
        ready.set_age(age_);
        ready.set_steps(boundary.steps());
        ready.set_tokens(boundary.tokens());
        ready.set_loss(boundary.loss());
        ready.set_train_seconds(boundary.seconds());
        ready.set_contribution_root(ToBytes(update->contribution->root));
        *ready.mutable_samples() = assigned_->samples();
        update_ = std::move(*update);
        if (Planted(PlantedBug::kResidualChangedAtSend)) residual_ = nullptr;
        assigned_.reset();
        training_ = false;
        SendReady();
      }));
}

void RoundRunner::SendReady() {
  const std::optional<Digest> state = keeper_.StateDigestOf(keeper_.version());
  if (!state) return;  // OnDigest sends it
  const bool told = measure_.Tell(update_->contribution, &update_->ready, guard_.Wrap([this] {
    if (update_) SendReady();
  }));
  if (!told) return;
  v1::PeerMessage message;
  v1::Ready* ready = message.mutable_ready();
  *ready = update_->ready;
  ready->set_version(keeper_.version() + 1);
  ready->set_base_version(keeper_.version());
  ready->set_epoch(epoch_);
  ready->set_state_digest(ToBytes(*state));
  events_.sign(ready);
  events_.send(message);
  waker_.OnWaiting();
}

// -----------------------------------------------------------------------------------------------
// Exchange

bool RoundRunner::Accept(const std::string& method, std::unique_ptr<Call>* call) {
  if (server_ == nullptr) return false;  // it follows no run
  if (method == kExchangeMethod) {
    server_->Accept(std::move(*call));
  } else if (method == kInputsMethod) {
    inputs_.Accept(std::move(*call));
  } else if (method == kWakeMethod) {
    waker_.Accept(std::move(*call));
  } else {
    return false;
  }
  return true;
}

void RoundRunner::OnAudit(const v1::Audit& order) {
  if (exchange_ == nullptr) return;
  exchange_->Audit(order, guard_.Wrap([this](v1::AuditReport report) {
    v1::PeerMessage message;
    *message.mutable_audit_report() = std::move(report);
    events_.send(message);
  }));
}

void RoundRunner::StartExchange(const v1::Plan& plan) {
  std::shared_ptr<const Contribution> contribution;
  for (const v1::PlanMember& member : plan.contributors()) {
    if (member.peer() != self_) continue;
    if (!update_ || member.contribution_root() != ToBytes(update_->contribution->root)) {
      // Planned for an update that this peer no longer holds: taking part would break the plan's
      // promise.
      env_.log.Warning(absl::StrCat("round ", plan.version(), ": the plan names another update"));
      return;
    }
    contribution = update_->contribution;
  }
  revision_ = plan.revision();
  vote_.reset();
  held_.clear();
  exchange_began_ = env_.executor.Now();
  ExchangeSettings settings;
  settings.run_id = spec_.run_id();
  settings.self = self_;
  settings.codec = codecs_.updates.codec;
  settings.zstd = codecs_.updates.zstd;
  settings.upper_codec = codecs_.means.codec;
  settings.upper_zstd = codecs_.means.zstd;
  settings.grid = keeper_.grid();
  settings.failure_timeout = failure_timeout_;
  settings.traffic = &traffic_;
  settings.arrivals = &arrivals_;
  settings.stochastic = spec_.exchange().stochastic_rounding();
  settings.seed = spec_.seed();
  settings.lanes = lanes_;
  measure_.Fill(&settings);
  Exchange::Events events;
  events.on_complete =
      guard_.Wrap([this](ExchangeOutcome outcome) { OnOutcome(std::move(outcome)); });
  events.on_reducer_unreachable = guard_.Wrap(
      [this](std::string reducer, absl::Status why) { OnReducerUnreachable(reducer, why); });
  events.on_shards_held = guard_.Wrap([this](std::vector<std::pair<uint32_t, uint32_t>> shards) {
    v1::PeerMessage message;
    v1::ShardsHeld* held = message.mutable_shards_held();
    held->set_version(exchange_->version());
    held->set_epoch(exchange_->epoch());
    for (const auto& [shard, attempt] : shards) {
      held->add_shards(shard);
      held->add_attempts(attempt);
    }
    events_.send(message);
    held_.push_back(std::move(message));
  });
  events.on_refused = guard_.Wrap([this](const v1::UpdateRefused& refused) {
    v1::PeerMessage message;
    *message.mutable_update_refused() = refused;
    events_.send(message);
  });
  env_.log.Debug(absl::StrCat("round ", plan.version(), ": exchange begins, ",
                              plan.contributors_size(), " contributors, ", plan.shards_size(),
                              " shards"));
  server_->SetCurrent(nullptr);
  arrivals_.Begin(exchange_began_);
  exchange_ = std::make_unique<Exchange>(env_, settings, plan, std::move(contribution), events);
  server_->SetCurrent(exchange_.get());
  events_.on_busy(true);
}

void RoundRunner::OnOutcome(ExchangeOutcome outcome) {
  if (exchange_ == nullptr || outcome.revision != revision_) return;
  const uint64_t version = exchange_->version();
  const std::optional<Digest> state = keeper_.StateDigestOf(version - 1);
  if (!state) return;  // it is being repaired: this attempt goes on without its vote
  v1::Vote vote;
  vote.set_version(version);
  vote.set_epoch(exchange_->epoch());
  vote.set_revision(outcome.revision);
  vote.set_payload_digest(ToBytes(outcome.payload_digest));
  for (const v1::ShardRecord& shard : outcome.shards) *vote.add_shards() = shard;
  vote.set_state_digest(ToBytes(*state));
  vote.set_squared_mean_bits(absl::bit_cast<uint64_t>(outcome.squared_mean));
  vote.set_exchange_seconds(absl::ToDoubleSeconds(env_.executor.Now() - exchange_began_));
  if (Planted(PlantedBug::kVoteBeforeFsync)) {
    vote_ = vote;
    SendVote();
  }
  keeper_.Prepare(outcome.payload, guard_.Wrap([this, vote](absl::Status status) {
    if (!status.ok()) {
      env_.log.Error(absl::StrCat("round ", vote.version(), ": no vote: the payload ",
                                  "cannot be made durable: ", status.message()));
      return;
    }
    if (vote.revision() != revision_ || exchange_ == nullptr) return;
    vote_ = vote;
    SendVote();
  }));
}

void RoundRunner::SendVote() {
  v1::PeerMessage message;
  *message.mutable_vote() = *vote_;
  std::optional<v1::Arrivals> arrivals = arrivals_.Report(env_.executor.Now());
  if (arrivals) *message.mutable_vote()->mutable_arrivals() = *std::move(arrivals);
  events_.send(message);
}

void RoundRunner::OnReducerUnreachable(const std::string& reducer, const absl::Status& why) {
  if (exchange_ == nullptr) return;
  if (stop_watch_.JustStopped(env_.executor.Now())) {
    env_.log.Info(absl::StrCat("round ", exchange_->version(), ": this process was stopped for a ",
                               "while; nobody is blamed for reducer ", reducer, ": ",
                               why.message()));
    return;
  }
  env_.log.Warning(absl::StrCat("round ", exchange_->version(), ": reducer ", reducer,
                                " cannot be reached: ", why.message()));
  v1::PeerMessage message;
  v1::ReducerUnreachable* report = message.mutable_reducer_unreachable();
  report->set_version(exchange_->version());
  report->set_epoch(exchange_->epoch());
  report->set_revision(revision_);
  report->set_reducer(reducer);
  report->set_reason(std::string(why.message()));
  events_.send(message);
}

// -----------------------------------------------------------------------------------------------

void RoundRunner::Drain() {
  draining_ = true;
  next_train_.reset();
  if (!update_ && exchange_ == nullptr) {
    assigned_.reset();
    training_ = false;
    ++training_id_;
  }
  CheckIdle();
}

bool RoundRunner::idle() const {
  return !assigned_ && !training_ && !update_ && exchange_ == nullptr;
}

void RoundRunner::CheckIdle() {
  if (draining_ && idle()) env_.executor.Post(guard_.Wrap([this] { events_.on_idle(); }));
}

}  // namespace atolld
