#include "daemon/peer/mask_link.h"

#include <algorithm>
#include <utility>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "compression/base/planted_bug.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "membership/history/run_codecs.h"
#include "membership/masking/mask_announcement.h"
#include "membership/masking/masked_terms.h"
#include "membership/trust/contribution.h"

namespace atolld {
namespace {

// Returns the form in which every mean of the run is encoded.
ChunkForm FormOfMeans(const v1::RunSpec& spec, const LevelCodecs& codecs) {
  const Codec* const codec = codecs.means.codec;
  const bool stochastic = spec.exchange().stochastic_rounding() && codec->has_stochastic_rounding();
  return ChunkForm{codec, codecs.means.zstd, stochastic, spec.seed()};
}

bool SameContributors(const v1::MaskedSum& sum, const std::vector<std::string>& contributors) {
  return !sum.ragged() && std::equal(sum.contributors().begin(), sum.contributors().end(),
                                     contributors.begin(), contributors.end());
}

}  // namespace

MaskLink::MaskLink(Env env, std::string self, const std::string& dir, ReplicaKeeper& keeper,
                   OwnUpdate& own, Events events)
    : env_(env),
      self_(std::move(self)),
      keeper_(keeper),
      own_(own),
      events_(std::move(events)),
      pinned_(env, self_, dir),
      shown_(env, dir),
      steps_(keeper) {}

absl::Status MaskLink::Load(const SigningKey* key) {
  key_ = key;
  RETURN_IF_ERROR(pinned_.Load(key->public_key()));
  return shown_.Load();
}

void MaskLink::Follow(const v1::RunSpec& spec) {
  if (!spec.privacy().masked()) return;
  spec_ = spec;
  codecs_ = CodecsOf(spec.exchange()).value();
  steps_.Follow(spec);
  const size_t listed = pinned_.known().size();
  if (spec.privacy().closed() && listed < RosterRuleOf(spec.privacy()).fewest) {
    env_.log.Error(
        absl::StrCat("only listed parties take part in the run's sums ([privacy] "
                     "closed), and ",
                     pinned_.path(), " lists ", listed - 1,
                     " beside this one: write the others' lines there, and start this "
                     "peer again"));
  }
  duty_ = std::make_unique<MaskDuty>(
      spec.run_id(), self_, key_, RosterRuleOf(spec.privacy()),
      [this] { return RandomBytes(env_.executor); }, [this] { return pinned_.known(); });
}

bool MaskLink::IsUnderWay(const v1::MaskAttempt& attempt) const {
  return under_way() && SameAttempt(duty_->party()->attempt(), attempt);
}

// -----------------------------------------------------------------------------------------------
// Messages of the coordinator

void MaskLink::OnMessage(const v1::MaskToParty& message) {
  if (duty_ == nullptr) return;
  if (message.has_begin()) return Begin(message.begin());
  if (begin_ && message.has_discarded() && SameAttempt(*begin_, message.discarded())) {
    begin_.reset();
    return;
  }
  const bool discarded = message.has_discarded() && IsUnderWay(message.discarded());
  MaskDuty::Output out = duty_->OnMessage(message);
  frozen_ = frozen_ || (!out.sends.empty() && out.sends.front().has_agreed());
  if (message.has_roster()) {
    if (out.action != MaskDuty::Action::kForget) roster_ = message.roster();
    const std::string why = pinned_.Contradiction(message.roster());
    if (std::exchange(stranger_, why) != why && !why.empty()) env_.log.Error(why);
  }
  // The coordinator has repeated this message after a broken Session; the update was already
  // masked.
  const bool told_again =
      message.has_delivery() && out.action == MaskDuty::Action::kNothing && masked_.has_value();
  CarryOut(std::move(out), discarded);
  if (told_again) CarryOut(duty_->Masked(masked_->contribution_root(), masked_->signature()));
}

void MaskLink::Begin(const v1::MaskAttempt& attempt) {
  begin_.reset();
  // This peer was not told how the previous attempt ended.
  if (under_way() && attempt.attempt() > duty_->party()->attempt().attempt()) Forget();
  if (own_.plain() == nullptr) return Refuse(attempt, "no update is held here");
  if (IsSpent()) return Refuse(attempt, "its update may be in another sum");
  if (attempt.version() != keeper_.version() + 1) {
    return Refuse(attempt, absl::StrCat("this replica is at version ", keeper_.version()));
  }
  if (!IsCounted(attempt.version()) && shown_.CountOf(attempt.version()) >= kMostSumsOfAVersion) {
    return Refuse(attempt,
                  absl::StrCat(kMostSumsOfAVersion, " updates to version ", attempt.version(),
                               " may have been in unmasked sums, none of which was committed; this "
                               "peer shows no more of them before the file mask_shown is removed"));
  }
  const bool loaded = attempt.first_range() || steps_.Loaded([this] {
    if (begin_) Begin(v1::MaskAttempt(*begin_));
  });
  if (!loaded) {
    begin_ = attempt;
    return;
  }
  const auto steps = attempt.first_range() ? steps_.First() : steps_.steps();
  if (steps == nullptr) {
    return Refuse(attempt, "the newest mean is not here, since a snapshot led past it");
  }
  v1::MaskToParty message;
  *message.mutable_begin() = attempt;
  MaskDuty::Output out = duty_->OnMessage(message);
  const bool taken = !out.sends.empty();
  CarryOut(std::move(out));
  if (!taken) return Refuse(attempt, "it is over here");
  attempt_steps_ = steps;
}

void MaskLink::Refuse(const v1::MaskAttempt& attempt, const std::string& why) {
  env_.log.Info(absl::StrCat("round ", attempt.version(), ": no part in attempt ",
                             attempt.attempt(), " at a masked sum: ", why));
  v1::MaskFromParty message;
  *message.mutable_refused() = attempt;
  Send(std::move(message));
}

void MaskLink::Send(v1::MaskFromParty message) {
  v1::PeerMessage sent;
  *sent.mutable_mask() = std::move(message);
  events_.send(sent);
}

void MaskLink::CarryOut(MaskDuty::Output out, bool told) {
  if (!out.event.empty()) env_.log.Warning(out.event);
  if (out.action == MaskDuty::Action::kForget) OnOver(told);
  for (v1::MaskFromParty& message : out.sends) Send(std::move(message));
  if (out.action == MaskDuty::Action::kMask) Mask();
  if (out.action == MaskDuty::Action::kUnmask) Unmask();
}

void MaskLink::OnOver(bool told) {
  // Other peers can unmask the parts of it that they have, without this peer.
  const bool shown = frozen_ || (masked_.has_value() && !told);
  const bool held = own_.plain() != nullptr && own_.plain()->values == counted_.lock();
  own_.Stand(nullptr);
  roster_.Clear();
  masked_.reset();
  sum_.reset();
  unmasking_.reset();
  unmasked_.reset();
  frozen_ = false;
  events_.on_over();
  if (!shown || !held || Planted(PlantedBug::kMaskedAgain)) return;
  spent_ = counted_;
  DropSpent();
}

bool MaskLink::IsSpent() const {
  return own_.plain() != nullptr && own_.plain()->values == spent_.lock();
}

// Drops a spent update, unless the replica is behind: an entry that is still to come may have taken
// it.
void MaskLink::DropSpent() {
  if (!IsSpent() || keeper_.behind()) return;
  env_.log.Info(absl::StrCat("round ", counted_for_, ": the update may be in a sum that was ",
                             "unmasked; it is in no other, and another is trained"));
  own_.Drop();
  events_.on_shown();
}

bool MaskLink::IsCounted(uint64_t version) const {
  return counted_for_ == version && own_.plain()->values == counted_.lock();
}

void MaskLink::GiveUp(const absl::Status& why) {
  if (duty_ == nullptr) return;
  begin_.reset();
  CarryOut(duty_->GiveUp(why));
}

void MaskLink::Forget() {
  begin_.reset();
  End(false);
}

void MaskLink::End(bool told) {
  if (!under_way()) return;
  duty_->Forget();
  OnOver(told);
}

void MaskLink::OnMoved() {
  steps_.Load();
  DropSpent();
  if (!under_way()) return;
  if (duty_->party()->attempt().version() != keeper_.version() + 1) {
    begin_.reset();
    return End(/*told=*/true);  // the entry names the contributors
  }
  if (own_.plain() == nullptr) GiveUp(absl::FailedPreconditionError("its update is gone"));
}

// -----------------------------------------------------------------------------------------------
// The update

void MaskLink::Mask() {
  const OwnUpdate::Plain* const plain = own_.plain();
  if (plain == nullptr) return GiveUp(absl::FailedPreconditionError("its update is gone"));
  const float weight = own_.weight();
  const v1::MaskAttempt attempt = duty_->party()->attempt();
  auto made =
      std::make_shared<absl::StatusOr<MaskedContribution>>(absl::UnknownError("not masked"));
  env_.executor.Offload(
      [made, update = *plain, weight, terms = MaskedTermsOf(spec_, attempt), steps = attempt_steps_,
       grid = keeper_.grid(), party = std::make_shared<const MaskParty>(*duty_->party())] {
        *made =
            MaskContribution(grid, terms, *steps, *update.values, weight, update.rounding, *party);
      },
      guard_.Wrap([this, made, weight, attempt] {
        if (IsUnderWay(attempt)) OnMasked(*made, weight);
      }));
}

void MaskLink::OnMasked(const absl::StatusOr<MaskedContribution>& made, float weight) {
  if (!made.ok()) return GiveUp(made.status());
  const uint64_t version = duty_->party()->attempt().version();
  if (made->cut > 0) {
    env_.log.Warning(absl::StrCat("round ", version, ": ", Counted(made->cut, "value"),
                                  " of the update had no room in the ring and ",
                                  made->cut == 1 ? "was" : "were", " cut"));
  }
  if (own_.plain() == nullptr) return GiveUp(absl::FailedPreconditionError("its update is gone"));
  weight_ = weight;
  auto contribution = std::make_shared<const Contribution>(made->contribution);
  if (IsCounted(version)) return TellMasked(std::move(contribution));
  const std::weak_ptr<const std::vector<float>> values = own_.plain()->values;
  shown_.Add(version, [this, contribution, values,
                       attempt = duty_->party()->attempt()](const absl::Status& written) {
    if (written.ok()) {
      counted_ = values;
      counted_for_ = attempt.version();
    }
    if (!IsUnderWay(attempt)) return;
    if (!written.ok()) return GiveUp(Annotate(written, "its update cannot be counted as shown"));
    TellMasked(contribution);
  });
}

// From now on other peers may unmask the sum that the update is in.
void MaskLink::TellMasked(std::shared_ptr<const Contribution> made) {
  v1::Ready proof;
  proof.set_version(duty_->party()->attempt().version());
  proof.set_contribution_root(ToBytes(made->root));
  own_.Stand(std::move(made));
  events_.sign(&proof);
  masked_.emplace();
  masked_->set_contribution_root(proof.contribution_root());
  masked_->set_signature(proof.signature());
  CarryOut(duty_->Masked(proof.contribution_root(), proof.signature()));
}

absl::Status MaskLink::CheckPlan(const v1::Plan& plan) const {
  if (!under_way() || plan.version() != duty_->party()->attempt().version()) {
    return absl::OkStatus();
  }
  const std::string context = absl::StrCat("round ", plan.version(), ": its plan ");
  if (IsBrief(plan)) {
    return absl::FailedPreconditionError(
        absl::StrCat(context, "does not name those whose masked updates are summed"));
  }
  for (const v1::PlanMember& member : plan.contributors()) {
    if (member.peer() != self_ || !masked_ ||
        member.contribution_root() != masked_->contribution_root()) {
      continue;
    }
    const float weight = absl::bit_cast<float>(member.weight_bits());
    const bool scaled = member.scale_bits() != 0 && absl::bit_cast<float>(member.scale_bits()) != 1;
    if (weight == weight_ && !scaled) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat(context, scaled ? "scales" : "weighs", " this peer's masked update by ",
                     scaled ? absl::bit_cast<float>(member.scale_bits()) : weight,
                     ", and it was masked with ", scaled ? 1 : weight_));
  }
  return absl::OkStatus();
}

// -----------------------------------------------------------------------------------------------
// The sum

void MaskLink::OnSum(ExchangeOutcome outcome, const ExchangePlan& plan) {
  if (!under_way() || plan.version() != duty_->party()->attempt().version() || plan.brief()) {
    return;  // a peer that has masked nothing gets the mean from the others
  }
  Sum sum;
  sum.told = MaskedSumOf(plan, outcome);
  const std::vector<std::string> contributors(sum.told.contributors().begin(),
                                              sum.told.contributors().end());
  sum.weights = PlannedWeights(plan, contributors);
  sum.outcome = std::move(outcome);
  sum_ = std::move(sum);
  if (!duty_->contributors().empty()) return Unmask();
  CarryOut(duty_->Summed(sum_->told));
}

void MaskLink::Repeat() {
  if (under_way() && sum_ && duty_->contributors().empty()) CarryOut(duty_->Summed(sum_->told));
}

// Unmasks the sum once both the sum and the secrets have arrived, in any order.
void MaskLink::Unmask() {
  if (!sum_ || duty_->contributors().empty()) return;
  if (!SameContributors(sum_->told, duty_->contributors())) {
    return GiveUp(absl::FailedPreconditionError(
        "the secrets are for a sum over others than the one that is here"));
  }
  const Digest digest = sum_->outcome.payload_digest;
  if (unmasked_ && unmasked_->sum == digest) return TellUnmasked();
  if (unmasking_ == digest) return;
  unmasking_ = digest;
  const v1::MaskAttempt attempt = duty_->party()->attempt();
  auto made = std::make_shared<absl::StatusOr<UnmaskedMean>>(absl::UnknownError("not unmasked"));
  env_.executor.Offload(
      [made, terms = MaskedTermsOf(spec_, attempt), steps = attempt_steps_, grid = keeper_.grid(),
       payload = sum_->outcome.payload, masks = duty_->masks(), weights = sum_->weights,
       means = FormOfMeans(spec_, codecs_), version = attempt.version()] {
        *made = UnmaskMean(grid, terms, *steps, payload, masks, weights, means, version);
      },
      guard_.Wrap([this, made, digest, attempt] {
        if (!IsUnderWay(attempt) || unmasking_ != digest) return;
        unmasking_.reset();
        if (!made->ok()) return GiveUp(made->status());
        unmasked_ = Unmasked{digest, *std::move(*made)};
        if (!spec_.privacy().closed())
          pinned_.Pin(roster_);  // a closed run's list of keys is
                                 // changed only by people
        Unmask();
      }));
}

void MaskLink::TellUnmasked() {
  ExchangeOutcome outcome = sum_->outcome;
  outcome.payload = unmasked_->mean.payload;
  outcome.payload_digest = unmasked_->mean.digest;
  outcome.squared_mean = unmasked_->mean.squared_mean;
  events_.on_unmasked(std::move(outcome));
}

}  // namespace atolld
