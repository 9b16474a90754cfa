#include "membership/trust/update_judge.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compression/base/words.h"
#include "optimizer/past_updates.h"
#include "optimizer/robust_shares.h"

namespace atolld {
namespace {

// The age from which on an update may be no longer than one of this age.
constexpr uint32_t kMostAge = 8;

// As for block scales: a smaller scale has no visible effect.
constexpr double kLeastScale = 0x1p-100;

// Returns the bits of a scale; 0 means 1.
uint32_t ScaleBits(double scale) {
  const float narrowed = static_cast<float>(scale);
  return narrowed >= 1.0f ? 0 : absl::bit_cast<uint32_t>(narrowed);
}

}  // namespace

UpdateJudge::UpdateJudge(const JudgeSettings& settings, const JudgeRecord& stored)
    : settings_(settings), medians_(stored.medians) {
  for (const JudgedPeer& peer : stored.peers) peers_[peer.peer] = peer;
}

absl::Status UpdateJudge::Check(const v1::Ready& ready, uint64_t parameters) const {
  constexpr double kLargest = std::numeric_limits<float>::max();
  const double most = static_cast<double>(parameters) * kLargest * kLargest;
  const double norm = absl::bit_cast<double>(ready.squared_norm_bits());
  const double distance = absl::bit_cast<double>(ready.squared_distance_bits());
  // A comparison with a NaN is false. A distance may be that of two updates that point in opposite
  // directions.
  if (norm >= 0 && norm <= most && distance >= 0 && distance <= 4 * most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("its squared norm is %g and its squared distance %g, which no update of %d "
                      "values has",
                      norm, distance, parameters));
}

double UpdateJudge::LengthOf(const ExchangeContributor& contributor) const {
  const v1::PlanMember& member = contributor.member;
  const double squared = absl::bit_cast<double>(
      settings_.from_centre && member.squared_distance_bits() != 0 ? member.squared_distance_bits()
                                                                   : member.squared_norm_bits());
  return std::sqrt(squared / contributor.share);
}

std::vector<size_t> UpdateJudge::Choose(absl::Span<const ExchangeContributor> contributors,
                                        size_t quorum) const {
  std::vector<size_t> all(contributors.size());
  std::iota(all.begin(), all.end(), size_t{0});
  if (settings_.from_centre) {
    std::vector<size_t> measured;
    std::copy_if(all.begin(), all.end(), std::back_inserter(measured),
                 [&](size_t i) { return contributors[i].member.squared_distance_bits() != 0; });
    const auto dialled = [&](size_t i) { return !contributors[i].member.address().empty(); };
    // The only peer that can average may be among those that would be left out.
    const bool reduce = std::any_of(measured.begin(), measured.end(), dialled) ||
                        std::none_of(all.begin(), all.end(), dialled);
    if (reduce && measured.size() >= std::max(quorum, settings_.least)) all = std::move(measured);
  }
  if (all.size() <= settings_.most) return all;
  std::stable_sort(all.begin(), all.end(),
                   [&](size_t a, size_t b) { return contributors[a].age > contributors[b].age; });
  all.resize(settings_.most);
  std::sort(all.begin(), all.end());
  return all;
}

std::set<std::string> UpdateJudge::Scale(std::vector<ExchangeContributor>* contributors) {
  outsized_.clear();
  clipped_.clear();
  ForgetReports();
  // If some contributor does not hold the centre, updates are measured from zeros, and all lengths
  // are norms.
  const bool centred =
      settings_.from_centre &&
      std::all_of(contributors->begin(), contributors->end(), [](const auto& contributor) {
        return contributor.member.squared_distance_bits() != 0;
      });
  std::vector<double> seen;
  for (ExchangeContributor& contributor : *contributors) {
    if (!centred) contributor.member.set_squared_distance_bits(0);
    const double length = LengthOf(contributor);
    if (length >= kLeastScale) seen.push_back(length);
  }
  round_median_ = LowerMedian(seen);
  const std::vector<double> none;
  const double reference = ReferenceNorm(settings_.remembers ? medians_ : none, round_median_);
  // If a run diverges, all updates grow: a peer whose update is as long as those of the others is
  // not to blame.
  const double usual = std::max(reference, round_median_);
  const double limit = settings_.clip * reference;
  std::set<std::string> hopeless;
  for (ExchangeContributor& contributor : *contributors) {
    const std::string& peer = contributor.member.peer();
    const double length = LengthOf(contributor);
    contributor.member.set_scale_bits(0);
    // An age is its peer's word, so it does not excuse any length.
    const double excused = 1.0 + std::min(contributor.age, kMostAge);
    if (IsOutsized(settings_.offenders, length, usual * excused)) {
      outsized_[peer] = absl::StrFormat("an update %.3g times as long as usual", length / usual);
    }
    if (limit <= 0 || length <= limit) continue;
    const double scale = limit / length;
    if (scale < kLeastScale) hopeless.insert(peer);
    contributor.member.set_scale_bits(ScaleBits(scale));
    clipped_.insert(peer);
  }
  return hopeless;
}

void UpdateJudge::NoteRefused(const std::string& peer, const std::string& why) {
  JudgedPeer& judged = peers_[peer];
  judged.peer = peer;
  ++judged.refused;
  judged.offence = why;
  refused_[peer] = why;
  ++refusals_[peer];
}

void UpdateJudge::NotePlan(const v1::Plan& plan) {
  for (const v1::PlanMember& member : plan.contributors()) contributors_.insert(member.peer());
  for (const v1::Shard& shard : plan.shards()) {
    if (shard.chunks() == 0) continue;
    collectors_.insert(shard.reducer());
    for (const v1::Relay& relay : shard.relays()) collectors_.insert(relay.peer());
  }
}

bool UpdateJudge::NoteReport(const std::string& reporter, const v1::UpdateRefused& report) {
  const std::string& peer = report.contributor();
  if (contributors_.count(peer) == 0 || collectors_.count(reporter) == 0) return false;
  if (reporter == peer) return false;
  std::set<std::string>& reporters = reporters_[peer];
  if (!reporters.insert(reporter).second) return false;
  // One of two reports may be a lie. If only one peer can report, its report decides.
  const size_t others = collectors_.size() - collectors_.count(peer);
  if (reporters.size() < std::min<size_t>(2, others) || !reported_.insert(peer).second)
    return false;
  NoteRefused(peer, absl::StrCat("chunk ", report.chunk(),
                                 " was refused: ", report.reason().substr(0, 200)));
  return true;
}

std::vector<std::string> UpdateJudge::EndRound(bool committed) {
  std::vector<std::string> lines;
  // The update is judged again in the next attempt.
  if (!committed) outsized_.clear();
  for (const auto& [peer, why] : outsized_) {
    peers_[peer].peer = peer;
    peers_[peer].offence = why;
  }
  for (auto it = peers_.begin(); it != peers_.end();) {
    JudgedPeer& judged = it->second;
    const bool offended = refused_.count(it->first) + outsized_.count(it->first) > 0;
    const bool was_out = IsLeftOut(settings_.offenders, judged.offences);
    if (committed || offended) judged.offences = AfterRound(judged.offences, offended);
    const bool is_out = IsLeftOut(settings_.offenders, judged.offences);
    if (offended)
      lines.push_back(absl::StrCat("offence of peer ", it->first, ": ", judged.offence));
    if (is_out && !was_out) {
      lines.push_back(absl::StrCat(
          "peer ", it->first, " has offended in ", Offences(settings_.offenders, judged.offences),
          " of the last ", Counted(settings_.offenders.rounds, "round"), " and is left out for ",
          RoundsUntilLetIn(settings_.offenders, judged.offences)));
    }
    if (was_out && !is_out) lines.push_back(absl::StrCat("peer ", it->first, " is let in again"));
    const bool nothing = judged.offences == 0 && judged.refused == 0 && judged.clipped == 0;
    it = nothing ? peers_.erase(it) : std::next(it);
  }
  outsized_.clear();
  refused_.clear();
  ForgetReports();
  given_up_ = committed ? 0 : given_up_ + 1;
  if (committed) refusals_.clear();
  return lines;
}

std::vector<std::string> UpdateJudge::NoteCommit(const v1::EntryHeader& header) {
  if (round_median_ > 0 && settings_.remembers) RememberNorm(round_median_, &medians_);
  round_median_ = 0;
  for (const v1::Contributor& contributor : header.contributors()) {
    if (contributor.scale_bits() == 0 || clipped_.count(contributor.peer()) == 0) continue;
    JudgedPeer& judged = peers_[contributor.peer()];
    judged.peer = contributor.peer();
    ++judged.clipped;
  }
  return EndRound(true);
}

void UpdateJudge::ForgetReports() {
  contributors_.clear();
  collectors_.clear();
  reporters_.clear();
  reported_.clear();
}

std::vector<std::string> UpdateJudge::NoteGivenUp() { return EndRound(false); }

std::vector<std::string> UpdateJudge::Offenders() const {
  const OffenderRule& rule = settings_.offenders;
  // Those of whom this round can expect nothing come first: the others are needed more.
  std::vector<std::tuple<bool, uint32_t, std::string>> ranked;
  for (const auto& [peer, judged] : peers_) {
    const auto refusals = refusals_.find(peer);
    const bool hopeless =
        rule.offences > 0 && refusals != refusals_.end() && refusals->second >= rule.offences;
    const bool by_record = given_up_ < kAttemptsUntilLetIn && IsLeftOut(rule, judged.offences);
    if (!hopeless && !by_record) continue;
    ranked.emplace_back(hopeless, Offences(rule, judged.offences), peer);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) {
    return std::tie(std::get<0>(a), std::get<1>(a)) > std::tie(std::get<0>(b), std::get<1>(b));
  });
  std::vector<std::string> offenders;
  offenders.reserve(ranked.size());
  for (const auto& [hopeless, offences, peer] : ranked) offenders.push_back(peer);
  return offenders;
}

JudgeRecord UpdateJudge::Record() const {
  JudgeRecord record;
  record.medians = medians_;
  for (const auto& [peer, judged] : peers_) record.peers.push_back(judged);
  return record;
}

void UpdateJudge::Show(const std::string& peer, v1::PeerStatus* status) const {
  const auto found = peers_.find(peer);
  if (found == peers_.end()) return;
  const JudgedPeer& judged = found->second;
  status->set_updates_refused(judged.refused);
  status->set_updates_clipped(judged.clipped);
  status->set_offence(judged.offence);
  const uint32_t rounds = RoundsUntilLetIn(settings_.offenders, judged.offences);
  if (rounds == 0) return;
  status->set_offence(
      absl::StrCat("left out for ", Counted(rounds, "round"), ": ", judged.offence));
}

}  // namespace atolld
