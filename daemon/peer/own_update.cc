#include "daemon/peer/own_update.h"

#include <algorithm>
#include <set>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/planted_bug.h"
#include "compression/error_feedback.h"
#include "daemon/replica/state/state_memory.h"
#include "membership/history/run_codecs.h"
#include "membership/history/run_mode.h"
#include "membership/privacy/update_noise.h"
#include "membership/trust/contribution.h"

namespace atolld {
namespace {

// Returns true if the header took the update of this Ready: only one entry spends its samples. Also
// returns true if this is not known, because there are no leases or the header does not name the
// samples.
bool SameSamples(const v1::Contributor& contributor, const v1::Ready& ready) {
  std::set<uint64_t> held;
  for (const v1::SampleRange& range : ready.samples()) held.insert(range.first());
  if (held.empty() || contributor.samples_size() == 0) return true;
  for (const v1::SampleRange& range : contributor.samples()) {
    if (held.count(range.first()) != 0) return true;
  }
  return false;
}

// Returns the update, clipped and with noise. Sets `within` to Ready.within.
std::vector<float> MadePrivate(const PrivacyTerms& terms, const OwnUpdate::Trained& trained,
                               const std::string& key, absl::Span<const float> update,
                               double* within) {
  std::vector<float> values(update.begin(), update.end());
  const bool longer = ClipUpdate(absl::MakeSpan(values), trained.clip);
  NoiseStream noise(key);
  AddNoise(noise, terms.Deviation(trained.clip, trained.parties), absl::MakeSpan(values));
  if (terms.quantile <= 0) return values;
  const uint32_t parties = std::max<uint32_t>(1, trained.parties);
  const uint32_t shorter = trained.parties == 0 ? (longer ? 0 : 1) : trained.within;
  *within = shorter - parties / 2.0 + terms.CountDeviation(parties) * noise.Next();
  return values;
}

// Returns a = update + decay x residual for the values that the entry covers; `residual` has all
// values. Returns only the update if the sum is not finite: the residual is then replaced when the
// update is settled.
absl::StatusOr<std::vector<float>> WithResidual(const FragmentMap& covers, float decay,
                                                const std::vector<float>* residual,
                                                absl::Span<const float> update) {
  std::vector<float> values(update.begin(), update.end());
  if (residual == nullptr) return values;
  absl::Status added;
  if (!covers.IsFlat(residual->size())) {
    added = AddResidual(decay, GatherEntry(covers, *residual), absl::MakeSpan(values));
  } else {
    added = AddResidual(decay, *residual, absl::MakeSpan(values));
  }
  if (!added.ok()) return added;
  if (FirstNonFinite(values) < values.size()) values.assign(update.begin(), update.end());
  return values;
}

// Makes a Plain of values that are kept unencoded until they are masked. Fails with
// INVALID_ARGUMENT, as an encoding would, if one of them is not finite.
absl::StatusOr<OwnUpdate::Plain> KeptPlain(absl::Span<const float> values,
                                           const Rounding& rounding) {
  const size_t spoilt = FirstNonFinite(values);
  if (spoilt < values.size()) return FirstNotFinite(values, spoilt);
  auto kept = std::make_shared<const std::vector<float>>(values.begin(), values.end());
  return OwnUpdate::Plain{std::move(kept), rounding};
}

}  // namespace

void UpdateMeasure::Follow(const v1::ExchangeSpec& exchange, const LevelCodecs& codecs) {
  codecs_ = codecs;
  const AggregationRule rule = RuleOf(exchange).value();
  if (rule.settings().rule != "mean") rule_ = rule;
  Load();
}

void UpdateMeasure::Load() {
  if (!from_centre() || !keeper_.has_state() || Loaded()) return;
  loaded_ = false;
  auto read = std::make_shared<std::shared_ptr<const Centre>>();
  keeper_.ReadNewest(
      [read, codec = codecs_.means.codec, grid = keeper_.grid()](const Replica& replica) {
        Centre centre{codec, {}};
        if (replica.version() > 0) {
          const absl::StatusOr<Entry> entry = replica.ReadEntry(replica.version());
          if (!entry.ok()) return;
          absl::StatusOr<std::vector<SharedBytes>> chunks =
              SplitPayload(grid, *codec, entry->payload);
          if (!chunks.ok()) return;
          centre.chunks = *std::move(chunks);
        }
        *read = std::make_shared<const Centre>(std::move(centre));
      },
      guard_.Wrap([this, read](uint64_t version) {
        centre_ = *read;
        version_ = version;
        loaded_ = true;
        if (!Loaded()) return Load();
        if (later_) std::exchange(later_, nullptr)();
      }));
}

bool UpdateMeasure::Tell(const std::shared_ptr<const Contribution>& contribution, v1::Ready* ready,
                         Task later) {
  if (!from_centre()) {
    ready->set_squared_norm_bits(
        absl::bit_cast<uint64_t>(WholeNorms(contribution->norms).squared_norm));
    return true;
  }
  if (!Loaded()) {
    later_ = std::move(later);
    Load();
    return false;
  }
  if (centre_ != nullptr && (measured_ != contribution || measured_from_ != version_)) {
    auto norms = std::make_shared<absl::StatusOr<std::vector<ChunkNorms>>>(absl::UnknownError(""));
    keeper_.RunExclusive(
        [norms, contribution, centre = centre_, grid = keeper_.grid(),
         codec = codecs_.updates.codec] {
          *norms = NormsFrom(*centre, grid, *codec, *contribution);
        },
        guard_.Wrap([this, norms, contribution, version = version_, later = std::move(later)] {
          CHECK_OK(norms->status());  // both were decoded before
          norms_ = WholeNorms(**norms);
          measured_ = contribution;
          measured_from_ = version;
          later();
        }));
    return false;
  }
  const ChunkNorms norms = centre_ != nullptr ? norms_ : WholeNorms(contribution->norms);
  ready->set_squared_norm_bits(absl::bit_cast<uint64_t>(norms.squared_norm));
  ready->set_squared_distance_bits(
      centre_ != nullptr ? absl::bit_cast<uint64_t>(norms.squared_distance) : 0);
  return true;
}

void UpdateMeasure::Fill(ExchangeSettings* settings) const {
  settings->rule = rule_;
  if (Loaded()) settings->centre = centre_;
}

// -----------------------------------------------------------------------------------------------

OwnUpdate::OwnUpdate(Env env, std::string self, std::string dir, ReplicaKeeper& keeper)
    : env_(env),
      self_(std::move(self)),
      keeper_(keeper),
      measure_(keeper),
      residual_(env, self_, std::move(dir)) {}

void OwnUpdate::Follow(const v1::RunSpec& spec) {
  spec_ = spec;
  codecs_ = CodecsOf(spec.exchange()).value();
  privacy_ = PrivacyTermsOf(spec.privacy());
  measure_.Follow(spec.exchange(), codecs_);
}

void OwnUpdate::Encode(const Trained& as_trained, std::function<void(absl::Status, Encoded)> done) {
  taken_ = false;
  Trained trained = as_trained;
  if (trained.clip <= 0) trained.clip = privacy_.clip;
  std::string key = privacy_.on() ? RandomBytes(env_.executor) : "";
  auto made = std::make_shared<Encoded>();
  auto status = std::make_shared<absl::Status>();
  const bool feedback = spec_.exchange().error_feedback();
  const Codec* const codec = EncoderOf(spec_.exchange(), trained.slow_codec).value();
  const Rounding rounding = ContributionRounding(spec_, *codec, self_, trained.first_sample);
  made->slow_codec = trained.slow_codec;
  made->owned = trained.owned;
  const uint64_t version = keeper_.version() + 1;
  keeper_.RunExclusive(
      [made, status, feedback, rounding, trained, privacy = privacy_, key = std::move(key),
       masked = spec_.privacy().masked(), residual = residual_.values(), codec,
       decay = FeedbackDecay(spec_), grid = keeper_.grid(),
       covers = keeper_.fragments().Of(version), memory = keeper_.memory()] {
        absl::Span<const float> values = memory->update();
        std::vector<float> fragment;
        if (!covers.IsFlat(values.size())) {
          fragment = GatherEntry(covers, values);
          values = fragment;
        }
        std::vector<float> noisy;
        if (privacy.on()) {
          noisy = MadePrivate(privacy, trained, key, values, &made->within);
          if (privacy.quantile > 0) made->clip = trained.clip;
          values = noisy;
        }
        if (masked) {
          absl::StatusOr<Plain> kept = KeptPlain(values, rounding);
          *status = kept.status();
          if (kept.ok()) made->plain = *std::move(kept);
          return;
        }
        if (feedback) {
          absl::StatusOr<std::vector<float>> added =
              WithResidual(covers, decay, residual.get(), values);
          *status = added.status();
          if (!status->ok()) return;
          made->values = *std::move(added);
          values = made->values;
        }
        absl::StatusOr<Contribution> encoded =
            EncodeContribution(grid, *codec, rounding, values, trained.owned);
        *status = encoded.status();
        if (encoded.ok()) {
          made->contribution = std::make_shared<const Contribution>(*std::move(encoded));
        }
      },
      guard_.Wrap([this, made, status, as_trained, version, done = std::move(done)] {
        // The entry was committed meanwhile, and the next one covers other values.
        if (keeper_.fragments().several() && keeper_.version() + 1 != version) {
          return Encode(as_trained, done);
        }
        done(*status, std::move(*made));
      }));
}

void OwnUpdate::Hold(Encoded encoded, v1::Ready ready, bool missed) {
  if (!encoded.plain) ready.set_contribution_root(ToBytes(encoded.contribution->root));
  ready.set_slow_codec(encoded.slow_codec);
  ready.set_owned(encoded.owned);
  held_ = Held{std::move(encoded), std::move(ready), missed};
  refused_ = false;
  if (Planted(PlantedBug::kResidualChangedAtSend)) residual_.Forget();
}

void OwnUpdate::Refuse() {
  held_.reset();
  refused_ = true;
  if (!spec_.exchange().error_feedback() || residual_.values() == nullptr) return;
  env_.log.Info(absl::StrCat("version ", keeper_.version(),
                             ": the last update was refused; its residual is forgotten"));
  residual_.Discard(keeper_.genesis());
}

std::shared_ptr<const Contribution> OwnUpdate::contribution() const {
  return held_ ? held_->encoded.contribution : nullptr;
}

const OwnUpdate::Plain* OwnUpdate::plain() const {
  return held_ && held_->encoded.plain ? &*held_->encoded.plain : nullptr;
}

float OwnUpdate::weight() const {
  if (!held_) return 0;
  uint64_t samples = 0;
  for (const v1::SampleRange& range : held_->ready.samples()) samples += range.count();
  return HeldWeights({ContributionWeight(spec_, held_->ready, samples)}).front();
}

const v1::Contributor* OwnUpdate::TakenBy(const v1::EntryHeader& header) const {
  for (const v1::Contributor& contributor : header.contributors()) {
    if (contributor.peer() != self_) continue;
    return held_ && SameSamples(contributor, held_->ready) ? &contributor : nullptr;
  }
  return nullptr;
}

void OwnUpdate::Stand(std::shared_ptr<const Contribution> masked) {
  if (plain() != nullptr) held_->encoded.contribution = std::move(masked);
}

std::vector<v1::SampleRange> OwnUpdate::samples() const {
  if (!held_) return {};
  return {held_->ready.samples().begin(), held_->ready.samples().end()};
}

std::optional<v1::Ready> OwnUpdate::Offer(uint64_t epoch, Task later) {
  const std::optional<Digest> state = keeper_.StateDigestOf(keeper_.version());
  if (!state) return std::nullopt;
  // The length of a masked update is told to no peer.
  if (plain() == nullptr &&
      !measure_.Tell(held_->encoded.contribution, &held_->ready, std::move(later))) {
    return std::nullopt;
  }
  v1::Ready ready = held_->ready;
  ready.set_version(keeper_.version() + 1);
  ready.set_base_version(keeper_.version() - (held_->missed ? 1 : 0));
  ready.set_epoch(epoch);
  ready.set_state_digest(ToBytes(*state));
  return ready;
}

void OwnUpdate::OnCommitted(const v1::EntryHeader& header) {
  measure_.Load();
  Settle(header);
  residual_.Keep(keeper_.genesis());
}

bool OwnUpdate::OnSkipped(const v1::EntryHeader& header) {
  if (header.version() != settled_version_ + 1) return false;  // OnOpened sees the gap
  Settle(header);
  return true;
}

bool OwnUpdate::OnOpened() {
  if (settled_version_ >= keeper_.version()) return false;
  // An entry that was skipped may have taken the update that this peer holds, or one of its former
  // life. Offered again, the update would count twice.
  const bool told = held_.has_value();
  if (told || residual_.loaded()) residual_.Forget();
  held_.reset();
  settled_version_ = keeper_.version();
  return told;
}

// Settles this peer's update by the header: it is included, or left for a later entry.
void OwnUpdate::Settle(const v1::EntryHeader& header) {
  settled_version_ = header.version();
  int position = -1;
  for (int i = 0; i < header.contributors_size(); ++i) {
    if (header.contributors(i).peer() == self_) position = i;
  }
  // The entry may have taken an update of a former life of this peer, while this process holds a
  // new one.
  const bool former =
      position >= 0 && held_ && !SameSamples(header.contributors(position), held_->ready);
  if (position >= 0) SettleResidual(header, former ? -1 : position);
  if (!held_) return;
  if (IsStreaming(spec_) && (position < 0 || former)) {
    // The next entry covers another fragment, and the worker keeps what it has learnt.
    held_.reset();
    dropped_ = true;
    return;
  }
  if (position < 0 || former) {
    // The update is now older by one entry. It is offered for the next entry when the new state's
    // digest is known. With error feedback it is still update + residual, and the residual is
    // unchanged.
    held_->ready.set_age(held_->ready.age() + 1);
    Stand(nullptr);
    return;
  }
  held_.reset();
  taken_ = true;
  carried_ = CarriedShare(spec_, header, position);
}

// Called only when the header has settled the update. The new residual is a = update + residual,
// minus the part that was taken, and scaled like the update.
void OwnUpdate::SettleResidual(const v1::EntryHeader& header, int position) {
  if (!spec_.exchange().error_feedback()) return;
  if (!held_ || position < 0) {
    // An update of a former life was taken, so its encoding error is not known any more.
    return residual_.Settle(header.version(), nullptr);
  }
  std::vector<float> rest = std::move(held_->encoded.values);
  const ChunkGrid grid(rest.size(), spec_.exchange().chunk_elements());
  const absl::Status kept = SubtractIncluded(header, position, grid, *codecs_.updates.codec,
                                             *held_->encoded.contribution, absl::MakeSpan(rest));
  if (!kept.ok()) env_.log.Error(absl::StrCat("residual: ", kept.message()));
  CarryShare(CarriedShare(spec_, header, position), absl::MakeSpan(rest));
  const Fragments& fragments = keeper_.fragments();
  if (!fragments.Of(header.version()).IsFlat(fragments.elements()))
    rest = residual_.With(keeper_.fragments(), header.version(), rest);
  residual_.Settle(header.version(), std::make_shared<const std::vector<float>>(std::move(rest)));
}

void OwnUpdate::LoadResidual() {
  settled_version_ = keeper_.version();
  if (!keeper_.has_state() || !keeper_.genesis().spec().exchange().error_feedback()) return;
  residual_.Load(keeper_.genesis(), keeper_.version());
}

}  // namespace atolld
