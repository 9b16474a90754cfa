#include "daemon/peer/peer_exchange.h"

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "compression/base/planted_bug.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "compression/ring_sum_codec.h"
#include "daemon/peer/reach_watch.h"
#include "membership/history/mean_records.h"
#include "membership/history/run_codecs.h"
#include "membership/trust/contribution.h"

namespace atolld {
namespace {

constexpr absl::Duration kAhead = absl::Milliseconds(500);  // before the end of the training
constexpr absl::Duration kEvery = absl::Seconds(2);         // BBR takes the round trip anew after
                                                            // 10 s
constexpr int kMostWaited = 30;                             // in units of kEvery

// The most bytes that one waking of all partners sends, as a share of the number of values in the
// exchange.
constexpr double kMostShare = 1.0 / 64;

// Returns true if the plan wants the update with this root from the member.
bool Names(const v1::Plan& plan, const v1::PlanMember& member, const std::string& root) {
  return IsBrief(plan) ? member.root_mark() == RootMark(root) : member.contribution_root() == root;
}

}  // namespace

void PartnerWaker::OnPlan(const ExchangePlan& plan, uint64_t values, const std::string& self,
                          uint32_t lanes) {
  phase_ = Phase::kExchanging;
  lanes_ = lanes;
  addresses_.clear();
  const std::optional<uint32_t> index = plan.IndexOf(self);
  for (const ExchangePlan::Shard& shard : plan.shards()) {
    if (shard.chunks == 0) continue;
    addresses_.insert(plan.AddressOf(plan.SourceOf(shard, self)));
    if (index) addresses_.insert(plan.AddressOf(plan.TargetOf(shard, *index)));
  }
  addresses_.erase("");
  if (addresses_.empty()) return;
  bytes_ = static_cast<size_t>(kMostShare * static_cast<double>(values)) / addresses_.size();
}

void PartnerWaker::OnTraining(std::optional<absl::Time> began) {
  phase_ = Phase::kTraining;
  began_ = began.value_or(env_.executor.Now());
}

void PartnerWaker::OnProgress(const v1::WorkerProgress& progress) {
  if (phase_ != Phase::kTraining || progress.step() == 0 || progress.step() > progress.steps()) {
    return;
  }
  const absl::Duration step = (env_.executor.Now() - began_) / progress.step();
  if (step * (progress.steps() - progress.step()) <= kAhead) Wake();
}

void PartnerWaker::OnWaiting() {
  if (phase_ == Phase::kWaiting) return;
  phase_ = Phase::kWaiting;
  waited_ = 0;
  env_.executor.Cancel(timer_);
  WakeWhileWaiting();
}

void PartnerWaker::WakeWhileWaiting() {
  if (phase_ != Phase::kWaiting || ++waited_ > kMostWaited) return;
  Wake();
  timer_ = env_.executor.RunAfter(kEvery, guard_.Wrap([this] { WakeWhileWaiting(); }));
}

void PartnerWaker::Wake() {
  const absl::Time now = env_.executor.Now();
  if (now - woken_ < kEvery) return;
  woken_ = now;
  for (const std::string& address : addresses_) {
    calls_.Wake(address, lanes_, bytes_ / lanes_, [this, address](const absl::Status& status) {
      if (heard_) heard_(address, status);
    });
  }
}

// -----------------------------------------------------------------------------------------------

PeerExchange::PeerExchange(Env env, std::string self, ReplicaKeeper& keeper, const OwnUpdate& own,
                           Events events)
    : env_(env),
      self_(std::move(self)),
      keeper_(keeper),
      own_(own),
      events_(std::move(events)),
      inputs_(env.executor,
              [this](const v1::InputsRequest& request) -> absl::StatusOr<std::vector<Frame>> {
                if (exchange_ != nullptr) return exchange_->Inputs(request);
                return absl::FailedPreconditionError("this peer is in no exchange");
              }),
      waker_(env, [this](const std::string& address, const absl::Status& status) {
        const bool excused = !IsAnswer(status) && stop_watch_.JustStopped(env_.executor.Now());
        if (events_.on_woken && !excused) events_.on_woken(address, status);
      }) {}

PeerExchange::~PeerExchange() {
  if (server_ != nullptr) server_->SetCurrent(nullptr);
}

void PeerExchange::Follow(const v1::RunSpec& spec, uint64_t epoch, absl::Duration failure_timeout) {
  const bool successor = epoch_ != 0 && epoch != epoch_;
  epoch_ = epoch;
  failure_timeout_ = failure_timeout;
  stop_watch_.SetLongest(failure_timeout / 2);
  waker_.SetPatience(EchoPatience(failure_timeout));
  if (server_ == nullptr) {
    spec_ = spec;
    codecs_ = CodecsOf(spec.exchange()).value();  // the peer has checked the run before
    server_ = std::make_unique<ExchangeServer>(env_, spec.run_id(), failure_timeout);
  }
  if (!successor || exchange_ == nullptr) return;
  env_.log.Info(absl::StrCat("round ", exchange_->version(), ": the coordinator has begun epoch ",
                             epoch, "; its exchange begins again"));
  if (events_.on_given_up) events_.on_given_up(waker_.addresses());
  Leave();
}

void PeerExchange::Repeat() {
  if (exchange_ != nullptr) {
    for (const v1::PeerMessage& held : held_) events_.send(held);
  }
  if (vote_) SendVote();
}

bool PeerExchange::Accept(const std::string& method, std::unique_ptr<Call>* call) {
  if (server_ == nullptr) return false;
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

absl::Status PeerExchange::OnPlan(const v1::Plan& plan) {
  ASSIGN_OR_RETURN(ExchangePlan made, ExchangePlan::Make(plan, keeper_.grid()));
  const bool same = exchange_ != nullptr && exchange_->version() == plan.version() &&
                    exchange_->epoch() == plan.epoch();
  const bool completes = same && plan_.brief() && !made.brief();
  if (same && plan.revision() == revision_ && !completes) return absl::OkStatus();
  if (same && plan.revision() < revision_) {
    return absl::FailedPreconditionError(absl::StrCat("round ", plan.version(),
                                                      ": its plan goes back from revision ",
                                                      revision_, " to ", plan.revision()));
  }
  if (same) RETURN_IF_ERROR(plan_.CheckSuccessor(made));
  plan_ = std::move(made);
  waker_.OnPlan(plan_, keeper_.grid().elements(), self_, lanes_);
  if (!same) {
    Start(plan);
    return absl::OkStatus();
  }
  revision_ = plan.revision();
  exchange_->Update(plan);
  return absl::OkStatus();
}

void PeerExchange::OnAudit(const v1::Audit& order) {
  if (exchange_ == nullptr) return;
  exchange_->Audit(order, guard_.Wrap([this](v1::AuditReport report) {
    v1::PeerMessage message;
    *message.mutable_audit_report() = std::move(report);
    events_.send(message);
  }));
}

void PeerExchange::End() {
  if (exchange_ != nullptr && exchange_->version() <= keeper_.version()) Leave();
}

void PeerExchange::Leave() {
  if (exchange_ == nullptr) return;
  server_->SetCurrent(nullptr);
  exchange_.reset();
  outcome_.reset();
  vote_.reset();
  events_.on_busy(false);
}

void PeerExchange::Start(const v1::Plan& plan) {
  std::shared_ptr<const Contribution> contribution;
  for (const v1::PlanMember& member : plan.contributors()) {
    if (member.peer() != self_) continue;
    contribution = own_.contribution();
    if (contribution == nullptr || !Names(plan, member, ToBytes(contribution->root))) {
      // The plan names an update that this peer no longer holds, so this peer must not take part.
      env_.log.Warning(absl::StrCat("round ", plan.version(), ": the plan names another update"));
      return;
    }
  }
  revision_ = plan.revision();
  vote_.reset();
  outcome_.reset();
  held_.clear();
  began_ = env_.executor.Now();
  const ExchangeSettings settings = Settings();
  env_.log.Debug(absl::StrCat("round ", plan.version(), ": exchange begins, ",
                              Counted(plan.contributors_size(), "contributor"), ", ",
                              Counted(plan.shards_size(), "shard")));
  server_->SetCurrent(nullptr);
  arrivals_.Begin(began_);
  exchange_ = std::make_unique<Exchange>(env_, settings, plan, std::move(contribution), Hears());
  server_->SetCurrent(exchange_.get());
  events_.on_busy(true);
}

ExchangeSettings PeerExchange::Settings() {
  ExchangeSettings settings;
  settings.run_id = spec_.run_id();
  settings.self = self_;
  settings.grid = keeper_.grid();
  settings.failure_timeout = failure_timeout_;
  settings.traffic = &traffic_;
  settings.arrivals = &arrivals_;
  settings.seed = spec_.seed();
  settings.lanes = lanes_;
  if (spec_.privacy().masked()) {  // masked elements are summed, cannot be compressed, and have a
                                   // codec of their own
    settings.codec = settings.upper_codec = &MaskedSumCodec();
    settings.zstd = settings.upper_zstd = false;
    return settings;
  }
  settings.codec = codecs_.updates.codec;
  settings.zstd = codecs_.updates.zstd;
  settings.upper_codec = codecs_.means.codec;
  settings.upper_zstd = codecs_.means.zstd;
  settings.stochastic = spec_.exchange().stochastic_rounding();
  own_.Fill(&settings);
  return settings;
}

Exchange::Events PeerExchange::Hears() {
  Exchange::Events events;
  events.on_complete =
      guard_.Wrap([this](ExchangeOutcome outcome) { OnOutcome(std::move(outcome)); });
  events.on_reducer_unreachable = guard_.Wrap(
      [this](std::string reducer, absl::Status why) { OnReducerUnreachable(reducer, why); });
  events.on_shards_held = guard_.Wrap(
      [this](std::vector<std::pair<uint32_t, uint32_t>> shards) { OnShardsHeld(shards); });
  events.on_refused = guard_.Wrap([this](const v1::UpdateRefused& refused) {
    v1::PeerMessage message;
    *message.mutable_update_refused() = refused;
    events_.send(message);
  });
  return events;
}

void PeerExchange::OnShardsHeld(const std::vector<std::pair<uint32_t, uint32_t>>& shards) {
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
}

void PeerExchange::OnOutcome(ExchangeOutcome outcome) {
  if (exchange_ == nullptr || outcome.revision != revision_) return;
  if (!spec_.privacy().masked()) return Decide(std::move(outcome));
  events_.on_masked_sum(std::move(outcome), plan_);
}

void PeerExchange::Decide(ExchangeOutcome outcome) {
  if (exchange_ == nullptr || outcome.revision != revision_) return;
  const uint64_t version = exchange_->version();
  const std::optional<Digest> state = keeper_.StateDigestOf(version - 1);
  if (!state) {  // the digest is not known yet; the vote is sent when it is
    outcome_ = std::move(outcome);
    return;
  }
  v1::Vote vote;
  vote.set_version(version);
  vote.set_epoch(exchange_->epoch());
  vote.set_revision(outcome.revision);
  vote.set_payload_digest(ToBytes(outcome.payload_digest));
  if (FitAVote(outcome.records)) *vote.mutable_records() = std::move(outcome.records);
  vote.set_state_digest(ToBytes(*state));
  vote.set_squared_mean_bits(absl::bit_cast<uint64_t>(outcome.squared_mean));
  vote.set_exchange_seconds(absl::ToDoubleSeconds(env_.executor.Now() - began_));
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

void PeerExchange::OnDigest() {
  if (!outcome_) return;
  ExchangeOutcome outcome = *std::move(outcome_);
  outcome_.reset();
  Decide(std::move(outcome));
}

void PeerExchange::SendVote() {
  v1::PeerMessage message;
  *message.mutable_vote() = *vote_;
  std::optional<v1::Arrivals> arrivals = arrivals_.Report(env_.executor.Now());
  if (arrivals) *message.mutable_vote()->mutable_arrivals() = *std::move(arrivals);
  events_.send(message);
}

void PeerExchange::OnReducerUnreachable(const std::string& reducer, const absl::Status& why) {
  if (exchange_ == nullptr) return;
  if (stop_watch_.JustStopped(env_.executor.Now())) {
    env_.log.Info(absl::StrCat("round ", exchange_->version(), ": this process was stopped for a ",
                               "while; nobody is blamed for reducer ", reducer, ": ",
                               why.message()));
    return;
  }
  env_.log.Warning(absl::StrCat("round ", exchange_->version(), ": reducer ", reducer,
                                " cannot be reached: ", why.message()));
  const bool silent = absl::IsUnavailable(why) || absl::IsDeadlineExceeded(why);
  if (silent && events_.on_silent) events_.on_silent(reducer, why);
  v1::PeerMessage message;
  v1::ReducerUnreachable* report = message.mutable_reducer_unreachable();
  report->set_version(exchange_->version());
  report->set_epoch(exchange_->epoch());
  report->set_revision(revision_);
  report->set_reducer(reducer);
  report->set_reason(std::string(why.message()));
  events_.send(message);
}

}  // namespace atolld
