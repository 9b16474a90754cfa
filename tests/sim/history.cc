#include "tests/sim/history.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>
#include <utility>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "compression/base/bitmap.h"
#include "daemon/exchange/exchange.h"
#include "daemon/replica/state/state_digest.h"
#include "membership/history/digest.h"
#include "membership/history/header.h"
#include "membership/history/run_codecs.h"
#include "tests/sim/oracle.h"
#include "tests/sim/oracle_fragments.h"
#include "tests/sim/oracle_rules.h"

namespace atolld {
namespace {

// A peer that is this many versions behind is checked by digests alone.
constexpr size_t kThetasKept = 16;

bool Same(absl::Span<const float> a, absl::Span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

bool AllFinite(absl::Span<const float> values) {
  return std::all_of(values.begin(), values.end(),
                     [](float value) { return std::isfinite(value); });
}

absl::Span<const uint8_t> BytesOfString(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Returns the root of the leaves that production makes of these bytes.
std::string RootOf(const v1::RunSpec& spec, uint64_t elements, const Oracle::Chunks& chunks) {
  const Codec& codec = *CodecsOf(spec.exchange()).value().updates.codec;
  const ChunkGrid grid(elements, spec.exchange().chunk_elements());
  std::vector<Digest> digests;
  std::vector<ChunkNorms> norms;
  for (uint32_t c = 0; c < chunks.size(); ++c) {
    digests.push_back(Sha256(BytesOf(chunks[c])));
    norms.emplace_back();
    if (chunks[c].empty()) continue;  // not sent
    norms.back().squared_norm =
        MeasureChunk(codec, BytesOf(chunks[c]), grid.Elements(c)).value_or(0);
  }
  return ToBytes(ContributionRoot(ContributionLeaves(digests, norms)));
}

bool Names(const v1::EntryHeader& header, const std::string& payload) {
  return ToBytes(TreeDigest(BytesOfString(payload))) == header.payload_digest();
}

bool SameSamples(const v1::Ready& a, const v1::Ready& b) {
  if (a.samples_size() != b.samples_size()) return false;
  for (int i = 0; i < a.samples_size(); ++i) {
    if (a.samples(i).first() != b.samples(i).first()) return false;
  }
  return true;
}

// tokens / (1 + lambda x age), or tokens times another factor if the run counts ages differently;
// rounded to fp32 once.
uint32_t WeightBits(const v1::RunSpec& spec, const v1::Ready& ready) {
  const auto tokens = static_cast<double>(ready.tokens());
  float lambda = 0.25f;
  if (const uint32_t told = spec.federation().staleness_bits();
      spec.federation().has_staleness_bits()) {
    std::memcpy(&lambda, &told, sizeof(lambda));
  }
  const double divisor = 1 + double{lambda} * static_cast<double>(ready.age());
  const auto weight = static_cast<float>(
      OracleCountsAges(spec) ? tokens * OracleAgeFactor(spec, ready.age()) : tokens / divisor);
  uint32_t bits;
  std::memcpy(&bits, &weight, sizeof(bits));
  return bits;
}

// [membership] weight_cap's default.
constexpr float kWeightCap = 16;

// Scales are rounded to fp32 once.
constexpr double kRounding = 1e-6;

double DoubleOf(uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// The most shards that a liar may have had, one after another, in an exchange.
constexpr size_t kMostShards = 6;

// Returns where each chunk of a payload ends.
std::vector<size_t> EndsOf(const std::string& payload) {
  uint32_t count;
  std::memcpy(&count, payload.data(), sizeof(count));
  std::vector<uint32_t> sizes(count);
  std::memcpy(sizes.data(), payload.data() + sizeof(count), count * sizeof(count));
  std::vector<size_t> ends;
  size_t end = (1 + size_t{count}) * sizeof(count);
  for (const uint32_t size : sizes) ends.push_back(end += size);
  return ends;
}

}  // namespace

void History::OnInitial(absl::Span<const float> initial) {
  initial_.assign(initial.begin(), initial.end());
  initials_.push_back(initial_);
}

void History::OnLife(const std::string& peer) {
  Worker& trainer = trainers_[peer];
  ++trainer.lives;
  trainer.fresh = true;
  trainer.residuals = trainer.settled;  // a life that could not read them may have lain between
  trainer.update.clear();
  ForgetsGiven(trainer);
}

void History::OnSnapshot(const std::string& peer) {
  Worker& trainer = trainers_[peer];
  trainer.fresh = true;
  trainer.unreadable = true;  // no entry comes with a snapshot
  // Perhaps somebody gave it whose memory has flipped: only the next header has the state's digest.
  trainer.flipped_until = std::max(trainer.flipped_until, flipped_until_);
  ForgetsGiven(trainer);
}

void History::OnMemoryFlip(const std::string& peer) {
  Worker& trainer = trainers_[peer];
  // It may have stepped once since it last said so.
  trainer.flipped_until = std::max(trainer.flipped_until, trainer.synced + 2);
  ForgetsGiven(trainer);
  flipped_until_ = std::max(flipped_until_, trainer.flipped_until);
}

void History::OnTrain(const std::string& peer, uint64_t version, absl::Span<const float> theta) {
  trainers_[peer].train_version = version;
  trainers_[peer].guess.clear();
  // A worker that was away begins an older round's steps on whatever its replica holds by then.
  // With a pipeline it begins before the entry before its own is there.
  const uint64_t oldest = version - (Pipelined() && version > 1 ? 2 : 1);
  if (trainers_[peer].distrusted || oldest <= trainers_[peer].flipped_until || thetas_.empty() ||
      oldest < thetas_.begin()->first)
    return;
  for (auto state = thetas_.find(oldest); state != thetas_.end(); ++state) {
    if (Same(state->second, theta)) return;
  }
  violate_(1, absl::StrCat(peer, " trains for version ", version, " on a theta of no state from ",
                           oldest, " on"));
}

// `former` is one of the newest versions, as for OnTrain. A process that has lost what it gave to
// the newest entry guesses with the mean alone, and one that lacks the mean guesses with its own
// update alone.
bool History::GuessFits(Worker& trainer, const Oracle& former, absl::Span<const float> guess) {
  const v1::OuterSpec& outer = spec_.outer();
  const auto given = trainer.given.find(former.version());
  const Oracle::Given* const before = given == trainer.given.end() ? nullptr : &given->second;
  if (Same(former.Guess(outer, trainer.held, before, true), guess)) {
    refreshed_guesses_ += before != nullptr ? 1 : 0;
    return true;
  }
  const bool unsure = former.version() <= trainer.given_unsure;
  return (unsure && Same(former.Guess(outer, trainer.held, nullptr, true), guess)) ||
         ((trainer.unreadable || means_go_) &&
          Same(former.Guess(outer, trainer.held, nullptr, false), guess));
}

void History::OnGuess(const std::string& peer, uint64_t version, absl::Span<const float> guess) {
  Worker& trainer = trainers_[peer];
  trainer.train_version = version;
  trainer.guess.assign(guess.begin(), guess.end());
  trainer.guessed_from = this->version();
  const uint64_t oldest = version - (version > 1 ? 2 : 1);
  const bool flipped = trainer.flipped_until != 0 && oldest <= trainer.flipped_until;
  if (trainer.distrusted || flipped || formers_.empty() || oldest < formers_.begin()->first) return;
  if (trainer.held.empty()) {
    return violate_(1, absl::StrCat(peer, " guesses for version ", version, " and offers nothing"));
  }
  for (auto former = formers_.find(oldest); former != formers_.end(); ++former) {
    if (!GuessFits(trainer, former->second, guess)) continue;
    trainer.guessed_from = former->first;
    ++guesses_;
    return;
  }
  std::string like;
  for (const auto& [made_of, former] : formers_) {
    for (const bool knows_mean : {false, true}) {
      if (!Same(former.Guess(spec_.outer(), trainer.held, nullptr, knows_mean), guess)) continue;
      absl::StrAppend(&like, "; it is what state ", made_of, " and ",
                      knows_mean ? "its mean alone" : "the peer's update alone", " lead to");
    }
  }
  violate_(1, absl::StrCat(peer, " trains for version ", version,
                           " on a guess that is of no state from ", oldest, " on", like));
}

void History::OnUpdate(const std::string& peer, absl::Span<const float> update,
                       absl::Span<const float> base) {
  Worker& trainer = trainers_[peer];
  trainer.update.assign(update.begin(), update.end());
  ++trainer.trainings;
  // Between a step of the replica and the word of it to the worker the base may be one behind; once
  // the peer has said the new version it may not.
  const uint64_t oldest = trainer.synced - (MissesEntries() && trainer.synced > 0 ? 1 : 0);
  if (trainer.distrusted || thetas_.count(oldest) == 0) return;
  if (trainer.train_version <= trainer.flipped_until + (Pipelined() ? 2 : 1)) return;
  // Nothing but the entry that it was a guess of may have passed a guess by.
  if (!trainer.guess.empty() && trainer.guessed_from >= oldest && Same(trainer.guess, base)) return;
  for (auto state = thetas_.find(oldest); state != thetas_.end(); ++state) {
    if (Same(state->second, base)) return;
  }
  violate_(1, absl::StrCat(peer, " holds version ", trainer.synced,
                           ", and its worker was not told of a commit that led there"));
}

void History::OnUpdateGone(const std::string& peer) {
  trainers_[peer].fresh = true;
  ForgetsGiven(trainers_[peer]);
}

std::string History::StateDigest(uint64_t version) const {
  return version < digests_.size() ? digests_[version] : "";
}

void History::PushState() {
  std::vector<BufferRoot> roots = {{kThetaName, TreeDigest(BytesOf(oracle_->theta()))}};
  const bool adaptive = !oracle_->second_moment().empty();
  if (!oracle_->delta_sum().empty()) {
    roots.push_back({"delta_sum", TreeDigest(BytesOf(oracle_->delta_sum()))});
  }
  if (!oracle_->momentum().empty()) {
    roots.push_back(
        {adaptive ? "first_moment" : "momentum", TreeDigest(BytesOf(oracle_->momentum()))});
  }
  if (adaptive) {
    roots.push_back({"second_moment", TreeDigest(BytesOf(oracle_->second_moment()))});
  }
  if (!oracle_->control().empty()) {
    roots.push_back({"control", TreeDigest(BytesOf(oracle_->control()))});
  }
  digests_.push_back(ToBytes(StateDigestOf(oracle_->version(), roots)));
  thetas_[oracle_->version()] = oracle_->theta();
  if (thetas_.size() > kThetasKept) thetas_.erase(thetas_.begin());
  if (!Guesses()) return;
  formers_.emplace(oracle_->version(), *oracle_);
  if (formers_.size() > kThetasKept) formers_.erase(formers_.begin());
}

void History::OnGenesis(const v1::Genesis& genesis) {
  const std::string digest = ToBytes(GenesisDigest(genesis));
  if (oracle_ != nullptr) {
    if (digest == header_digests_.front()) return;
    if (!may_begin_anew_ || header_digests_.size() > 1) {
      return violate_(2, "a second genesis was announced");
    }
    header_digests_.clear();
    signatures_.clear();
  }
  spec_ = genesis.spec();
  newest_.Clear();
  header_digests_.push_back(digest);
  signatures_.emplace_back();
  for (const std::vector<float>& initial : initials_) {
    thetas_.clear();
    formers_.clear();
    digests_.clear();
    initial_ = initial;
    oracle_ = std::make_unique<Oracle>(spec_, initial_, OracleFragments(spec_, genesis.manifest()),
                                       OracleParts(spec_, genesis.manifest()));
    PushState();
    if (digests_.front() == genesis.state_digest()) return;
  }
  violate_(1, "the genesis names another state than the initial parameters'");
}

// -----------------------------------------------------------------------------------------------
// What peers say

History::Key History::KeyOf(uint64_t version, const std::string& peer,
                            const std::string& root) const {
  return {peer, oracle_->FragmentOf(version), root};
}

void History::OnReady(const std::string& peer, const v1::Ready& ready) {
  if (oracle_ == nullptr) return violate_(3, absl::StrCat(peer, " is ready before version 0"));
  OnStateDigest(peer, ready.version() - 1, ready.state_digest());
  if (spec_.privacy().masked()) return OnPlainReady(peer, ready);
  Contribution& contribution =
      contributions_[KeyOf(ready.version(), peer, ready.contribution_root())];
  // Said again, perhaps by a peer that has not heard yet that it is in the history.
  Worker& trainer = trainers_[peer];
  // With private data no samples tell whether a liar has been asked anew; the round does.
  // With a pipeline it is asked for the next one before it has heard of the entry.
  const uint64_t asked_for = Pipelined() ? ready.version() : trainer.train_version;
  const bool anew = spec_.data().private_() && asked_for > contribution.included;
  if (contribution.included != 0 && SameSamples(contribution.ready, ready) && !anew) return;
  const bool feedback = spec_.exchange().error_feedback();
  std::vector<std::vector<float>> residuals = trainer.residuals;
  // A process may have lost its residual; one that runs on may not.
  if (trainer.fresh && !residuals.back().empty()) residuals.emplace_back();
  // With private data no samples are named: the round that its training was for keys the rounding.
  const uint64_t first_sample =
      ready.samples().empty() ? trainer.train_version : ready.samples(0).first();
  Contribution made;
  made.peer = peer;
  made.ready = ready;
  if (trainer.update.empty()) residuals.clear();
  std::vector<std::vector<float>> carried;
  for (std::vector<float>& residual : residuals) {
    std::vector<float> values = oracle_->Covered(ready.version(), trainer.update);
    if (!residual.empty()) {
      std::vector<float> sum =
          oracle_->WithResidual(values, oracle_->Covered(ready.version(), residual));
      if (AllFinite(sum)) values = std::move(sum);  // else it is as if there were none
    }
    Oracle::Chunks chunks =
        oracle_->Encode(peer, first_sample, values, ready.slow_codec(), ready.owned());
    if (RootOf(spec_, values.size(), chunks) != ready.contribution_root()) continue;
    made.values.push_back(std::move(values));
    made.residuals.push_back(residual);
    made.chunks = std::move(chunks);
    carried.push_back(std::move(residual));
  }
  if (contribution.included == 0 && !contribution.chunks.empty()) {
    // Said again; or other training, of a process that was started since, that gave the same bytes.
    contribution.ready = ready;
    contribution.life = trainer.lives;
    trainer.held = contribution.chunks;
    CheckLengths(peer, ready, contribution);
    return AddSame(std::move(made), &contribution);
  }
  if (!carried.empty()) {
    trainer.residuals = std::move(carried);
    trainer.fresh = false;
    // New; or, where one value dwarfs all others, other training that gave the same bytes.
    contribution = std::move(made);
    contribution.life = trainer.lives;
    trainer.held = contribution.chunks;
    CheckLengths(peer, ready, contribution);
    return;
  }
  violate_(feedback ? 9 : 3,
           absl::StrCat(peer, "'s contribution to version ", ready.version(),
                        " is not the encoding of its update",
                        feedback ? " and its residual by the committed headers" : ""));
}

// Adds another residual that gave the same bytes.
void History::AddSame(Contribution made, Contribution* known) {
  for (size_t i = 0; i < made.values.size(); ++i) {
    bool there = false;
    for (size_t j = 0; j < known->values.size(); ++j) {
      there =
          there || (known->values[j] == made.values[i] && known->residuals[j] == made.residuals[i]);
    }
    if (there) continue;
    known->values.push_back(std::move(made.values[i]));
    known->residuals.push_back(std::move(made.residuals[i]));
  }
}

// What the peer settles later is what its worker has handed over, by the round for which it was
// trained.
void History::OnPlainReady(const std::string& peer, const v1::Ready& ready) {
  if (!ready.contribution_root().empty() || !ready.signature().empty() ||
      ready.squared_norm_bits() != 0 || ready.squared_distance_bits() != 0) {
    return violate_(16, absl::StrCat(peer, " tells of its update to version ", ready.version(),
                                     " what masks are to hide"));
  }
  Worker& trainer = trainers_[peer];
  if (trainer.update.empty()) {
    return violate_(3, absl::StrCat(peer, " is ready for version ", ready.version(),
                                    ", and its worker has handed nothing over"));
  }
  trainer.offered = Contribution();
  trainer.offered.peer = peer;
  trainer.offered.values = {trainer.update};
  trainer.offered.ready = ready;
  trainer.offered.first_sample = trainer.train_version;
  trainer.offered.training = trainer.trainings;
}

void History::OnMasked(const std::string& peer, const v1::MaskedUpdate& masked) {
  const Worker& trainer = trainers_[peer];
  if (trainer.offered.peer.empty() ||
      trainer.offered.ready.version() != masked.attempt().version()) {
    return violate_(3, absl::StrCat(peer, " masks an update to version ",
                                    masked.attempt().version(), " that it has not offered"));
  }
  const std::vector<float>& values = trainer.offered.values.front();
  masked_[{masked.attempt().attempt(), peer}] = std::string(
      reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values.front()));
  Contribution& contribution =
      contributions_[KeyOf(masked.attempt().version(), peer, masked.contribution_root())];
  if (!contribution.peer.empty()) return;  // said again
  contribution = trainer.offered;
  contribution.weight_exponent = masked.attempt().weight_exponent();
  contribution.first_range = masked.attempt().first_range();
}

void History::OnOpened(const v1::UnmaskShares& opened) {
  const uint64_t attempt = opened.attempt().attempt();
  for (const v1::OpenShare& share : opened.shares()) {
    const auto masked = masked_.find({attempt, share.of()});
    if (!share.contributed() || masked == masked_.end()) continue;
    const auto [shown, first] = shown_.emplace(std::pair(share.of(), masked->second), attempt);
    if (first || shown->second == attempt) continue;
    violate_(
        16, absl::StrCat("one update of ", share.of(), " is in the sums of attempt ", shown->second,
                         " and of attempt ", attempt, " at version ", opened.attempt().version()));
  }
  masked_.erase(masked_.begin(), masked_.lower_bound({attempt, ""}));
}

void History::OnStateDigest(const std::string& peer, uint64_t version, const std::string& digest) {
  // A version that is not announced yet is judged when somebody speaks of it later.
  if (version >= digests_.size() || digests_[version] == digest) return;
  if (version == 0 && may_begin_anew_) return;  // one that was dropped, or is to be
  if (trainers_[peer].distrusted || version <= trainers_[peer].flipped_until) return;
  violate_(1, absl::StrCat(peer, " holds another state ", version, " than the oracle"));
}

void History::OnSynced(const std::string& peer, uint64_t version,
                       const std::string& header_digest) {
  if (version == 0 && may_begin_anew_) return;
  if (version >= header_digests_.size()) {
    if (oracle_ != nullptr) {
      violate_(2, absl::StrCat(peer, " holds version ", version, ", which nobody has announced"));
    }
    return;
  }
  if (header_digests_[version] != header_digest) {
    violate_(2, absl::StrCat(peer, " holds a version ", version, " of another history"));
  }
  Worker& trainer = trainers_[peer];
  trainer.synced = version;
}

// -----------------------------------------------------------------------------------------------
// What the coordinator says

void History::OnPlan(const v1::Plan& plan) { plans_[plan.version()] = plan; }

bool History::Known(const v1::EntryHeader& header) {
  const std::string digest = ToBytes(HeaderDigest(header));
  if (header.version() < header_digests_.size()) {
    if (header_digests_[header.version()] != digest) {
      violate_(2, absl::StrCat("a second header ", header.version(), " was announced"));
    }
    return true;
  }
  if (header.version() != header_digests_.size() ||
      header.previous_header_digest() != header_digests_.back()) {
    violate_(2, absl::StrCat("header ", header.version(), " does not follow header ",
                             header_digests_.size() - 1));
    return true;
  }
  if (!VerifySignature(spec_.history_key(), "atoll.header", digest, header.signature())) {
    violate_(2, absl::StrCat("header ", header.version(), " is announced without a signature"));
  }
  header_digests_.push_back(digest);
  signatures_.push_back(header.signature());
  return false;
}

void History::OnAnnounced(const v1::EntryHeader& header) {
  if (oracle_ == nullptr) return violate_(2, "a header was announced before version 0");
  if (Known(header)) return;
  if (header.previous_state_digest() != digests_.back()) {
    violate_(1, absl::StrCat("header ", header.version(),
                             " names another previous state than the oracle's"));
  }
  const std::vector<Contribution*> made = Contributions(header);
  if (made.empty()) return;
  CheckScales(header, made);
  CheckBase(header, made);
  std::string payload = PayloadOf(header, made);
  if (!Names(header, payload) && !Lied(header, &payload)) {
    violate_(3, absl::StrCat("the averaged bytes of version ", header.version(),
                             " are not the oracle's"));
  }
  Settle(header, made);
  for (const v1::Contributor& one : header.contributors()) slow_updates_ += one.slow_codec();
  oracle_->Step(header, payload);
  const std::string wrong = OracleStepScalars(spec_, header, newest_, oracle_->SquaredMean());
  if (!wrong.empty()) violate_(3, absl::StrCat("header ", header.version(), ": ", wrong));
  newest_ = header;
  PushState();
  plans_.erase(plans_.begin(), plans_.upper_bound(header.version()));
}

std::string History::PayloadOf(const v1::EntryHeader& header,
                               const std::vector<Contribution*>& made) {
  if (!spec_.privacy().masked()) {
    std::vector<const Oracle::Chunks*> chunks;
    for (const Contribution* one : made) chunks.push_back(&one->chunks);
    return oracle_->Payload(header, chunks);
  }
  CheckWhole(header, made.size());
  std::vector<Oracle::MaskedUpdate> updates;
  for (const Contribution* one : made) {
    updates.push_back({one->peer, one->first_sample, &one->values.front(), one->weight_exponent,
                       one->first_range});
    const auto [taken, first] =
        taken_.emplace(std::pair(one->peer, one->training), header.version());
    if (first) continue;
    violate_(3, absl::StrCat("one update of ", one->peer, " is in version ", taken->second,
                             " and in version ", header.version()));
  }
  return oracle_->MaskedPayload(header, updates);
}

// Masks can be removed only if each update is in all of the sum or in none of it.
void History::CheckWhole(const v1::EntryHeader& header, size_t contributors) {
  for (const v1::ContributorSet& set : header.records().sets()) {
    if (CountBits(set.contributors()) == contributors) continue;
    violate_(16, absl::StrCat("version ", header.version(), " counts an update in parts of a sum ",
                              "of masked ones"));
  }
}

// Returns them in the order of the header's contributors; empty if one of them cannot be found.
std::vector<History::Contribution*> History::Contributions(const v1::EntryHeader& header) {
  std::vector<Contribution*> made;
  const v1::Plan& plan = plans_[header.version()];
  for (int i = 0; i < header.contributors_size(); ++i) {
    const std::string& peer = header.contributors(i).peer();
    const auto member = std::find_if(plan.contributors().begin(), plan.contributors().end(),
                                     [&](const auto& one) { return one.peer() == peer; });
    const auto found =
        member == plan.contributors().end()
            ? contributions_.end()
            : contributions_.find(KeyOf(header.version(), peer, member->contribution_root()));
    if (found == contributions_.end() || found->second.peer.empty()) {
      violate_(3, absl::StrCat("header ", header.version(), " counts ", peer,
                               ", whose update nobody has seen become ready"));
      return {};
    }
    CheckContributor(header, i, found->second);
    if (found->second.included != 0) return {};
    made.push_back(&found->second);
  }
  if (made.empty()) violate_(3, absl::StrCat("header ", header.version(), " has no contributor"));
  return made;
}

// Beside an update that is very old, and so has little weight, the weight of one that is not is cut
// as that of one that is too large.
uint32_t History::CappedWeightBits(uint64_t version, const v1::Ready& ready) {
  const uint32_t own = WeightBits(spec_, ready);
  if (spec_.privacy().masked() || OracleCountsAges(spec_)) return own;
  std::vector<float> weights;
  for (const v1::PlanMember& member : plans_[version].contributors()) {
    const auto found =
        contributions_.find(KeyOf(version, member.peer(), member.contribution_root()));
    if (found != contributions_.end()) {
      weights.push_back(FloatOf(WeightBits(spec_, found->second.ready)));
    }
  }
  if (weights.empty()) return own;
  std::sort(weights.begin(), weights.end());
  const float most = kWeightCap * weights[(weights.size() - 1) / 2];
  return FloatOf(own) <= most ? own : absl::bit_cast<uint32_t>(most);
}

void History::CheckContributor(const v1::EntryHeader& header, int position,
                               const Contribution& made) {
  const v1::Contributor& contributor = header.contributors(position);
  for (int i = 0; i < position; ++i) {
    if (header.contributors(i).peer() >= contributor.peer()) {
      violate_(3, absl::StrCat("header ", header.version(), ": ", contributor.peer(),
                               " is not in roster order"));
    }
  }
  if (made.included != 0) {
    violate_(3, absl::StrCat("one update of ", contributor.peer(), " is in version ", made.included,
                             " and in version ", header.version()));
  }
  if (contributor.age() != (OracleCountsAges(spec_) ? made.ready.age() : 0)) {
    violate_(3, absl::StrCat("header ", header.version(), ": the update of ", contributor.peer(),
                             " is ", made.ready.age(), " commits old, not ", contributor.age()));
  }
  if (contributor.weight_bits() != CappedWeightBits(header.version(), made.ready)) {
    violate_(3, absl::StrCat("header ", header.version(), ": the weight of ", contributor.peer(),
                             " is not that of ", made.ready.tokens(), " tokens, ", made.ready.age(),
                             " commits old"));
  }
  CheckSpent(header, position, made.ready);
  SpendSamples(header, made.ready);
}

// An entry spends exactly what the update was trained on, and not what its peer trains on besides.
void History::CheckSpent(const v1::EntryHeader& header, int position, const v1::Ready& ready) {
  const auto numbers = [](const auto& ranges) {
    std::set<uint64_t> all;
    for (const v1::SampleRange& range : ranges) {
      for (uint64_t i = 0; i < range.count(); ++i) all.insert(range.first() + i);
    }
    return all;
  };
  const v1::Contributor& contributor = header.contributors(position);
  if (numbers(contributor.samples()) == numbers(ready.samples())) return;
  violate_(14, absl::StrCat("version ", header.version(), " spends other samples than ",
                            contributor.peer(), "'s update was trained on"));
}

// The base is the oldest of those against which its updates were formed.
void History::CheckBase(const v1::EntryHeader& header, const std::vector<Contribution*>& made) {
  uint64_t base = header.version() - 1;
  for (const Contribution* one : made) base = std::min(base, one->ready.base_version());
  const uint64_t oldest = header.version() - (MissesEntries() && header.version() > 1 ? 2 : 1);
  if (header.base_version() == base && base >= oldest) return;
  violate_(3, absl::StrCat("version ", header.version(), " names base ", header.base_version(),
                           ", and its updates were formed against version ", base));
}

void History::SpendSamples(const v1::EntryHeader& header, const v1::Ready& ready) {
  for (const v1::SampleRange& range : ready.samples()) {
    const uint64_t end = range.first() + range.count();
    const auto after = spent_.lower_bound(range.first());
    const bool overlaps = (after != spent_.end() && after->first < end) ||
                          (after != spent_.begin() && std::prev(after)->second > range.first());
    if (overlaps) {
      violate_(14, absl::StrCat("version ", header.version(), " counts samples ", range.first(),
                                " to ", end - 1, ", of which some were counted before"));
    }
    spent_[range.first()] = std::max(spent_[range.first()], end);
  }
}

void History::KeepGiven(const v1::EntryHeader& header, int position, const Contribution& made) {
  double weights = 0;
  for (const v1::Contributor& one : header.contributors()) {
    weights = weights + static_cast<double>(FloatOf(one.weight_bits()));
  }
  const v1::Contributor& own = header.contributors(position);
  Worker& trainer = trainers_[made.peer];
  // The process that offered it is gone, and the one after it does not know what it was.
  if (made.life != trainer.lives) trainer.given_unsure = header.version();
  std::map<uint64_t, Oracle::Given>& given = trainer.given;
  given[header.version()] = {
      made.chunks, static_cast<float>(static_cast<double>(FloatOf(own.weight_bits())) / weights),
      own.scale_bits() == 0 ? 1 : FloatOf(own.scale_bits())};
  if (given.size() > kThetasKept) given.erase(given.begin());
}

// What was handed over is now in the history: the residual is what was not sent, and the bytes may
// be dropped.
void History::Settle(const v1::EntryHeader& header, const std::vector<Contribution*>& made) {
  for (size_t i = 0; i < made.size(); ++i) {
    Contribution& one = *made[i];
    one.included = header.version();
    if (Guesses()) KeepGiven(header, static_cast<int>(i), one);
    if (spec_.exchange().error_feedback()) {
      Worker& trainer = trainers_[one.peer];
      trainer.settled.clear();
      for (size_t k = 0; k < one.values.size(); ++k) {
        std::vector<float> all = one.residuals[k];
        all.resize(initial_.size(), 0.0f);
        oracle_->PutBack(header.version(),
                         oracle_->Residual(header, static_cast<int>(i), one.values[k], one.chunks),
                         &all);
        trainer.settled.push_back(std::move(all));
      }
      trainer.residuals = trainer.settled;
    }
    one.values.clear();
    one.residuals.clear();
    one.chunks = Oracle::Chunks();
  }
}

// A key's signature of one message is always the same.
void History::OnHeld(const std::string& peer, const v1::EntryHeader& header) {
  const bool known = header.version() < signatures_.size();
  if (known && ToBytes(HeaderDigest(header)) == header_digests_[header.version()] &&
      header.signature() == signatures_[header.version()]) {
    return;
  }
  violate_(2, absl::StrCat(peer, " holds a header of version ", header.version(),
                           " that the history key has not signed"));
}

void History::OnSeal(const v1::Seal& seal) {
  if (seal.version() >= digests_.size() || seal.state_digest() != digests_[seal.version()]) {
    violate_(1, absl::StrCat("the run is sealed at version ", seal.version(),
                             " with another state than the oracle's"));
  }
  if (!VerifySignature(spec_.history_key(), "atoll.seal", ToBytes(SealDigest(seal)),
                       seal.signature())) {
    violate_(2, "the seal is not signed");
  }
}

void History::CheckLengths(const std::string& peer, const v1::Ready& ready,
                           const Contribution& made) {
  const size_t values = made.values.empty() ? 0 : made.values.front().size();
  if (DoubleOf(ready.squared_norm_bits()) != oracle_->SquaredNorm(made.chunks, values)) {
    violate_(3, absl::StrCat(peer, " tells another norm of its update to version ", ready.version(),
                             " than the oracle's"));
  }
  // Nobody who lacks the last mean tells a distance.
  if (ready.squared_distance_bits() == 0 || ready.version() != oracle_->version() + 1) return;
  if (DoubleOf(ready.squared_distance_bits()) != oracle_->SquaredDistance(made.chunks)) {
    violate_(3, absl::StrCat(peer, " tells another distance of its update to version ",
                             ready.version(), " than the oracle's"));
  }
}

// All scaled updates have one length, and no other is longer.
void History::CheckScales(const v1::EntryHeader& header, const std::vector<Contribution*>& made) {
  // Updates of different experts have lengths of different numbers of values.
  if (spec_.has_experts()) return;
  double limit = 0;
  double longest = 0;
  for (size_t i = 0; i < made.size(); ++i) {
    const uint32_t bits = header.contributors(static_cast<int>(i)).scale_bits();
    const v1::Ready& ready = made[i]->ready;
    const double length = std::sqrt(DoubleOf(
        header.clipping_steps() == 1 ? ready.squared_distance_bits() : ready.squared_norm_bits()));
    if (bits == 0) {
      longest = std::max(longest, length);
      continue;
    }
    const double scaled = length * static_cast<double>(FloatOf(bits));
    if (limit != 0 && std::fabs(scaled - limit) > kRounding * limit) {
      violate_(3, absl::StrCat("header ", header.version(), ": updates are scaled down to ", limit,
                               " and to ", scaled));
    }
    limit = scaled;
  }
  const bool clips = FloatOf(spec_.exchange().clip_bits()) > 0;
  if (limit != 0 && (!clips || longest > limit * (1 + kRounding))) {
    violate_(3, absl::StrCat("header ", header.version(), ": updates are scaled down to ", limit,
                             ", and one of ", longest, " is not"));
  }
}

bool History::Finite() const { return oracle_ == nullptr || AllFinite(oracle_->theta()); }

// Returns true if the header's payload is this one after the first chunk of some of the liars'
// shards was changed as HostileTransport does; `payload` then becomes that.
bool History::Lied(const v1::EntryHeader& header, std::string* payload) {
  const std::vector<size_t> ends = EndsOf(*payload);
  std::vector<size_t> places;
  for (const v1::Shard& shard : plans_[header.version()].shards()) {
    const bool lies = shard.chunks() > 0 && liars_.count(shard.reducer()) > 0;
    if (lies && places.size() < kMostShards) places.push_back(ends.at(shard.first_chunk()) - 1);
  }
  for (size_t subset = 1; subset < size_t{1} << places.size(); ++subset) {
    std::string changed = *payload;
    for (size_t i = 0; i < places.size(); ++i) {
      char& code = changed[places[i]];
      if (subset >> i & 1) code = code == 0 ? 1 : 0;
    }
    const Digest digest =
        TreeDigest({reinterpret_cast<const uint8_t*>(changed.data()), changed.size()});
    if (ToBytes(digest) != header.payload_digest()) continue;
    *payload = std::move(changed);
    ++lies_;
    return true;
  }
  return false;
}

}  // namespace atolld
