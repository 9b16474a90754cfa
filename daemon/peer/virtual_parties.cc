#include "daemon/peer/virtual_parties.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "compression/base/words.h"
#include "daemon/peer/party_draw.h"
#include "daemon/replica/state/state_memory.h"
#include "membership/history/fragment.h"
#include "membership/privacy/privacy_budget.h"
#include "membership/trust/contribution.h"

namespace atolld {
namespace {

// The pause before it checks again whether a party has come, if none is available: parties follow a
// file of times, which sends no notice.
constexpr absl::Duration kLookAgain = absl::Seconds(1);

// Returns the clip of differential privacy; 0 if the run has none.
double ClipLength(const v1::RunSpec& spec, const v1::TrainSteps& order) {
  const uint32_t usual = spec.privacy().clip_bits();
  if (usual == 0) return 0;
  return double{absl::bit_cast<float>(order.clip_bits() != 0 ? order.clip_bits() : usual)};
}

}  // namespace

VirtualParties::VirtualParties(Env env, Worker& worker, const Settings& settings, Hooks hooks)
    : env_(env), worker_(worker), settings_(settings), hooks_(std::move(hooks)) {}

void VirtualParties::Start(const v1::RunSpec& spec, Events events) {
  spec_ = spec;
  events_ = std::move(events);
  // A party's residual covers its whole update, but with fragments an entry takes only a part of
  // that.
  if (settings_.keep && spec.exchange().error_feedback() && FragmentsOf(spec) == 1) {
    residuals_ = std::make_shared<PartyResiduals>(
        env_.files, absl::StrCat(settings_.dir, "/parties"), settings_.peer, spec);
    const absl::Status cleared = residuals_->Clear();
    if (!cleared.ok()) env_.log.Error(absl::StrCat("residuals of parties: ", cleared.message()));
  }
  if (spec.inner().control_variates() || residuals_ != nullptr) {
    last_.resize(settings_.hosted);
  }
  Events heard;
  heard.on_configured = guard_.Wrap([this](const v1::WorkerConfigured& configured) {
    v1::WorkerConfigured told = configured;
    told.set_parties(settings_.hosted);
    events_.on_configured(told);
  });
  heard.on_message = guard_.Wrap([this](const v1::WorkerMessage& message) { OnMessage(message); });
  heard.on_lost = guard_.Wrap([this](const absl::Status& why) {
    Reset();
    events_.on_lost(why);
  });
  worker_.Start(spec, std::move(heard));
}

void VirtualParties::Renew(const v1::RunSpec& spec, const std::string& misfit) {
  spec_ = spec;
  worker_.Renew(spec, misfit);
}

void VirtualParties::Pause() {
  Reset();
  worker_.Pause();
}

void VirtualParties::Stop(Task done) {
  Reset();
  worker_.Stop(std::move(done));
}

void VirtualParties::Reset() {
  round_ = nullptr;
  training_ = false;
  evaluations_.clear();
}

void VirtualParties::Send(const v1::DaemonMessage& message) {
  switch (message.message_case()) {
    case v1::DaemonMessage::kTrain:
      return Begin(message.train());
    case v1::DaemonMessage::kRebase:
      if (training_) worker_.Send(message);
      return;
    case v1::DaemonMessage::kEvaluate:
      if (message.evaluate().own()) return Evaluate(message.evaluate());
      return worker_.Send(message);
    default:
      return worker_.Send(message);
  }
}

// -----------------------------------------------------------------------------------------------
// A round

void VirtualParties::Begin(const v1::TrainSteps& order) {
  if (!last_.empty()) {
    PartyOutcome last;
    last.taken = order.taken();
    if (order.carried_bits() != 0) last.carried = absl::bit_cast<float>(order.carried_bits());
    last.refused = order.refused();
    for (const uint32_t party : handed_over_) last_[party - settings_.first] = last;
  }
  handed_over_.clear();
  round_ = std::make_shared<Round>(
      Round{order, {}, 0, PartyMean(spec_.federation().normalised()), {}, {}});
  training_ = false;
  Draw();
}

void VirtualParties::Draw() {
  PartyDraw draw{kTrainDraw,      spec_.seed(),     round_->order.version(),
                 settings_.first, settings_.hosted, settings_.a_round};
  // Epsilon is right only if no other process knows the draw, and if no party is drawn more often.
  draw.share = PrivacyTermsOf(spec_.privacy()).sampling;
  if (draw.share < 1) draw.seed = env_.executor.Random();
  round_->parties = DrawParties(draw, is_there_);
  if (!round_->parties.empty()) {
    env_.log.Debug(absl::StrCat("round ", round_->order.version(), ": ",
                                Counted(round_->parties.size(), "party"), " of ",
                                settings_.hosted));
    if (!summing_) TrainNext();
    return;
  }
  newest_.set_version(round_->order.version());
  newest_.set_step(0);
  v1::WorkerMessage alive;
  *alive.mutable_progress() = newest_;
  events_.on_message(alive);
  env_.executor.RunAfter(kLookAgain, guard_.Wrap([this, round = std::weak_ptr<Round>(round_)] {
    if (round_ != nullptr && round.lock() == round_) Draw();
  }));
}

void VirtualParties::TrainNext() {
  const uint32_t party = round_->parties[round_->next];
  v1::DaemonMessage message;
  v1::TrainSteps* train = message.mutable_train();
  *train = round_->order;
  train->set_party(OnWire(party));
  train->set_fresh(!settings_.keep || broken_.erase(party) != 0);
  train->set_taken(!last_.empty() && last_[party - settings_.first].taken);
  training_ = true;
  worker_.Send(message);
}

void VirtualParties::OnMessage(const v1::WorkerMessage& message) {
  switch (message.message_case()) {
    case v1::WorkerMessage::kProgress:
      return OnProgress(message.progress());
    case v1::WorkerMessage::kBoundary:
      return OnBoundary(message.boundary());
    case v1::WorkerMessage::kEvaluated:
      if (message.evaluated().own()) return OnEvaluated(message.evaluated());
      return events_.on_message(message);
    default:
      return events_.on_message(message);
  }
}

// Counts steps over all parties of the round, so that the progress is that of the whole round.
void VirtualParties::OnProgress(const v1::WorkerProgress& progress) {
  v1::WorkerMessage told;
  *told.mutable_progress() = progress;
  const bool ours = training_ && progress.version() == round_->order.version();
  if (progress.evaluated() > 0 || !ours) {
    if (progress.evaluated() > 0) events_.on_message(told);
    return;
  }
  const uint64_t nominal = std::max<uint32_t>(1, round_->order.steps());
  const uint64_t own = std::max<uint32_t>(1, progress.steps());
  const uint64_t done =
      round_->next * nominal + std::min(own, uint64_t{progress.step()}) * nominal / own;
  v1::WorkerProgress* whole = told.mutable_progress();
  whole->set_step(static_cast<uint32_t>(done));
  whole->set_steps(static_cast<uint32_t>(round_->parties.size() * nominal));
  if (progress.step() == 0 && round_->next > 0) {  // no figures yet, so those of the last party are
                                                   // kept
    whole->set_loss(newest_.loss());
    whole->set_tokens_per_second(newest_.tokens_per_second());
  }
  newest_ = *whole;
  events_.on_message(told);
}

void VirtualParties::OnBoundary(const v1::Boundary& boundary) {
  if (!training_ || boundary.version() != round_->order.version() ||
      boundary.party() != OnWire(round_->parties[round_->next])) {
    return;  // it belongs to a round that was replaced
  }
  training_ = false;
  const uint32_t party = round_->parties[round_->next];
  PartyOutcome last;
  if (!last_.empty()) last = std::exchange(last_[party - settings_.first], PartyOutcome());
  Add(boundary, party, last);
}

void VirtualParties::Add(const v1::Boundary& boundary, uint32_t party, const PartyOutcome& last) {
  const double weight =
      PartyWeight(spec_, boundary.tokens(), boundary.samples(), boundary.first_loss());
  const double clip = ClipLength(spec_, round_->order);
  summing_ = true;
  hooks_.run(
      [round = round_, boundary, party, last, weight, clip, cut = clip_, residuals = residuals_,
       memory = hooks_.memory()] {
        absl::Span<const float> update = memory->update();
        std::vector<float> own;
        if (clip > 0 || residuals != nullptr) {
          own.assign(update.begin(), update.end());
          update = own;
        }
        bool counts = boundary.steps() > 0 && weight > 0 && std::isfinite(weight) &&
                      (clip <= 0 || cut != nullptr);
        if (counts && residuals != nullptr) {
          counts = residuals->Apply(party, last, boundary.version(), absl::MakeSpan(own)).ok();
        }
        const bool longer = counts && clip > 0 && cut(absl::MakeSpan(own), clip);
        if (!counts || FirstNonFinite(update) < update.size()) {
          round->unused.insert(party);
          return;
        }
        round->mean.Add(weight, boundary.steps(), update);
        v1::Boundary& sums = round->sums;
        sums.set_loss(sums.loss() + weight * boundary.loss());
        sums.set_first_loss(sums.first_loss() + weight * boundary.first_loss());
        if (clip > 0 && !longer) sums.set_within(sums.within() + 1);
      },
      guard_.Wrap([this, round = round_, boundary] {
        v1::Boundary& sums = round->sums;
        sums.set_tokens(sums.tokens() + boundary.tokens());
        sums.set_samples(sums.samples() + boundary.samples());
        sums.set_seconds(sums.seconds() + boundary.seconds());
        OnAdded(round);
      }));
}

void VirtualParties::OnAdded(const std::shared_ptr<Round>& round) {
  summing_ = false;
  if (round != round_) {  // the round was replaced or dropped meanwhile
    if (round_ != nullptr && !training_ && !round_->parties.empty()) TrainNext();
    return;
  }
  const uint32_t party = round->parties[round->next];
  if (round->unused.count(party) != 0) {
    env_.log.Warning(absl::StrCat("round ", round->order.version(), ": party ", party,
                                  " is left out: its update is not finite, or it has no weight"));
    broken_.insert(party);
  }
  ++round->next;
  if (round->next < round->parties.size()) return TrainNext();
  Finish();
}

void VirtualParties::Finish() {
  summing_ = true;
  hooks_.run(
      [round = round_, memory = hooks_.memory()] {
        const absl::Span<float> update = memory->writable_update();
        if (round->mean.parties() > 0) return round->mean.Write(update);
        update[0] = std::numeric_limits<float>::quiet_NaN();
      },
      guard_.Wrap([this, round = round_] {
        summing_ = false;
        if (round == round_) return HandOver();
        if (round_ != nullptr && !training_ && !round_->parties.empty()) TrainNext();
      }));
}

void VirtualParties::HandOver() {
  const std::shared_ptr<Round> round = std::exchange(round_, nullptr);
  const PartyMean& mean = round->mean;
  v1::WorkerMessage message;
  v1::Boundary* boundary = message.mutable_boundary();
  *boundary = round->sums;
  boundary->set_version(round->order.version());
  boundary->set_steps(static_cast<uint32_t>(mean.steps()));
  boundary->set_parties(static_cast<uint32_t>(mean.parties()));
  boundary->set_weight(mean.weight());
  if (mean.parties() > 0) {
    boundary->set_loss(boundary->loss() / mean.weight());
    boundary->set_first_loss(boundary->first_loss() / mean.weight());
  }
  for (const uint32_t party : round->parties) {
    if (round->unused.count(party) == 0) handed_over_.push_back(party);
  }
  events_.on_message(message);
}

// -----------------------------------------------------------------------------------------------
// Evaluations on own data

void VirtualParties::Evaluate(const v1::EvaluateShare& order) {
  Evaluation evaluation;
  evaluation.order = order;
  evaluation.parties = DrawParties({kEvaluateDraw, spec_.seed(), order.version(), settings_.first,
                                    settings_.hosted, kMostEvaluated},
                                   nullptr);
  v1::WorkerEvaluated& sums = evaluation.sums;
  sums.set_version(order.version());
  sums.set_share(order.share());
  sums.set_shares(order.shares());
  sums.set_own(true);
  evaluations_.push_back(std::move(evaluation));
  if (evaluations_.size() == 1) EvaluateNext();
}

void VirtualParties::EvaluateNext() {
  const Evaluation& evaluation = evaluations_.front();
  v1::DaemonMessage message;
  *message.mutable_evaluate() = evaluation.order;
  message.mutable_evaluate()->set_party(OnWire(evaluation.parties[evaluation.next]));
  worker_.Send(message);
}

void VirtualParties::OnEvaluated(const v1::WorkerEvaluated& evaluated) {
  if (evaluations_.empty()) return;
  Evaluation& evaluation = evaluations_.front();
  if (evaluated.version() != evaluation.order.version() ||
      evaluated.party() != OnWire(evaluation.parties[evaluation.next])) {
    return;
  }
  v1::WorkerEvaluated& sums = evaluation.sums;
  sums.set_loss_sum(sums.loss_sum() + evaluated.loss_sum());
  sums.set_tokens(sums.tokens() + evaluated.tokens());
  sums.mutable_own_losses()->MergeFrom(evaluated.own_losses());
  v1::WorkerMessage message;
  if (++evaluation.next < evaluation.parties.size()) {
    message.mutable_progress()->set_version(evaluated.version());
    message.mutable_progress()->set_evaluated(++evaluated_);
    EvaluateNext();
    return events_.on_message(message);
  }
  *message.mutable_evaluated() = sums;
  evaluations_.pop_front();
  if (!evaluations_.empty()) EvaluateNext();
  events_.on_message(message);
}

}  // namespace atolld
