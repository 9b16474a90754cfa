#include "membership/run/adoption.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compression/base/planted_bug.h"
#include "membership/run/admission.h"

namespace atolld {
namespace {

constexpr int kMostHeaders = 256;  // membership.proto

// The run stands still while a peer is asked: it may leave the question unanswered three times, for
// failure_timeout each, or lose its session over it eight times.
constexpr int kUnanswered = 8;
constexpr int kBroken = 3;
constexpr int kMostSilences = 24;

}  // namespace

void Adoption::Add(const std::string& peer, uint64_t version, const std::string& header_digest) {
  Claim& claim = claims_[peer];
  claim.version = version;
  claim.header_digest = header_digest;
}

void Adoption::SetSamples(const std::string& peer, std::vector<v1::SampleRange> samples) {
  const auto it = claims_.find(peer);
  if (it != claims_.end()) it->second.samples = std::move(samples);
}

void Adoption::Remove(const std::string& peer) {
  claims_.erase(peer);
  Broke(peer);
}

void Adoption::Drop(int weight) {
  silences_[asked_] += weight;
  asked_.clear();
}

void Adoption::Broke(const std::string& peer) {
  if (asked_ == peer) Drop(kBroken);
}

std::string Adoption::Choose(absl::Time now, absl::Duration patience, const Roster& roster) {
  if (!asked_.empty()) {
    if (now < asked_at_ + patience) return "";
    Drop(kUnanswered);
  }
  std::string chosen;
  for (const auto& [peer, claim] : claims_) {
    const RosterMember* member = roster.Find(peer);
    if (claim.helpless || member == nullptr || !member->connected() || !member->present()) continue;
    if (chosen.empty()) {
      chosen = peer;
      continue;
    }
    const int less = Silences(chosen) - Silences(peer);
    const bool longer = claim.version > claims_.at(chosen).version;
    if (less > 0 || (less == 0 && longer)) chosen = peer;
  }
  return chosen;
}

void Adoption::Answered(const std::string& peer) {
  if (asked_ == peer) asked_.clear();
  silences_.erase(peer);
}

absl::Status Adoption::MayClaim(const std::string& peer) const {
  if (Silences(peer) < kMostSilences || Planted(PlantedBug::kVersionBelieved)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("peer ", peer, " does not tell the history that it holds"));
}

int Adoption::Silences(const std::string& peer) const {
  const auto it = silences_.find(peer);
  return it == silences_.end() ? 0 : it->second;
}

absl::Time Adoption::Deadline(absl::Duration patience) const {
  return asked_.empty() ? absl::InfiniteFuture() : asked_at_ + patience;
}

std::vector<Adoption::Refusal> Adoption::RefuseAll(uint64_t version) const {
  const absl::Status why = absl::FailedPreconditionError(absl::StrCat(
      "the coordinator's store ends at version ", version,
      ", and no peer that is here has the headers from ", version + 1,
      " on any more; restore a newer store, or start with an empty directory to join this one"));
  std::vector<Refusal> refusals;
  for (const auto& [peer, claim] : claims_) refusals.push_back({peer, why});
  return refusals;
}

std::vector<Adoption::Refusal> Adoption::Advance(absl::Time now, absl::Duration patience,
                                                 const Ledger& ledger, const Members& members,
                                                 RunOutput* out, std::string* reason) {
  const uint64_t version = ledger.version();
  uint64_t longest = 0;
  for (const auto& [peer, claim] : claims_) longest = std::max(longest, claim.version);
  *reason = absl::StrCat("the store is at version ", version, ", peers hold version ", longest,
                         ": their history is being adopted");
  // The longest history of all that come back, not of the first.
  if (members.roster().in_grace(now)) return {};
  const bool hopeless = std::all_of(claims_.begin(), claims_.end(),
                                    [](const auto& entry) { return entry.second.helpless; });
  if (hopeless) return RefuseAll(version);
  const std::string donor = Choose(now, patience, members.roster());
  if (donor.empty()) return {};
  const absl::Status may = MayClaim(donor);
  if (!may.ok()) return {{donor, may}};
  asked_ = donor;
  asked_at_ = now;
  v1::CoordinatorMessage message;
  message.mutable_send_headers()->set_first_version(version + 1);
  message.mutable_send_headers()->set_genesis(!ledger.genesis());
  members.SendTo(donor, std::move(message), out);
  out->Say(absl::StrCat("the store is behind its peers: peer ", donor,
                        " is asked for the headers from ", version + 1, " to ",
                        claims_.at(donor).version));
  return {};
}

absl::StatusOr<bool> Adoption::OnHeaders(const std::string& peer, const v1::Headers& headers,
                                         const Ledger& ledger, LeaseBook* leases, RunOutput* out) {
  const uint64_t version = ledger.version();
  if (asked_ != peer) return false;  // too late: another was asked
  if (headers.headers_size() > 0 && headers.headers(0).version() <= version)
    return false;  // said before, and late
  const bool fresh = !ledger.genesis();
  const bool useless = headers.headers_size() == 0 || (fresh && !headers.has_genesis()) ||
                       headers.headers(0).version() > version + 1;
  if (useless) {
    out->Say(absl::StrCat("peer ", peer, " no longer has the header of version ", version + 1),
             RunOutput::Severity::kWarning);
    const auto it = claims_.find(peer);
    if (it != claims_.end()) it->second.helpless = true;
    Drop(kUnanswered);
    return false;
  }
  if (headers.headers_size() > kMostHeaders) {
    return absl::InvalidArgumentError("more than 256 headers in one message");
  }
  // All of them or nothing: what is said of a peer that lies is then simple.
  if (fresh) {
    const absl::Status valid = CheckInitialState(ledger.spec(), nullptr, headers.genesis());
    if (!valid.ok()) return valid;
  }
  const absl::Status valid =
      ledger.CheckNext(fresh ? headers.genesis() : *ledger.genesis(), headers, leases);
  if (!valid.ok()) {
    return absl::Status(valid.code(), absl::StrCat("the history that it tells is not the run's: ",
                                                   valid.message()));
  }
  Answered(peer);
  adopted_ = true;
  return true;
}

std::vector<Adoption::Reached> Adoption::TakeReached(const Ledger& ledger) {
  std::vector<Reached> all;
  for (const auto& [peer, claim] : claims_) {
    if (claim.version > ledger.version()) continue;
    Reached reached = {peer, claim.samples, absl::OkStatus()};
    const std::string& digest = ledger.digest(claim.version);
    if (digest != claim.header_digest) {
      reached.fits = absl::FailedPreconditionError(
          absl::StrCat("its version ", claim.version, " has header ",
                       absl::BytesToHexString(claim.header_digest), ", the run's has ",
                       absl::BytesToHexString(digest),
                       ": two histories; to join this one start it with an empty directory"));
    }
    all.push_back(std::move(reached));
  }
  for (const Reached& reached : all) Remove(reached.peer);
  return all;
}

}  // namespace atolld
