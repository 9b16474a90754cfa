#include "membership/run/adoption.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compression/base/planted_bug.h"
#include "membership/run/admission.h"

namespace atolld {
namespace {

constexpr int kMostHeaders = 256;  // the limit in membership.proto

// The run waits while a peer is asked. A peer may leave the question unanswered three times, for
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

void Adoption::SetTraining(const v1::Hello& hello) {
  const auto it = claims_.find(hello.peer());
  if (it == claims_.end()) return;
  it->second.held = HeldTraining(hello);
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
  // Waits for all former members, because the longest history of all of them counts, not that of
  // the first one.
  if (members.roster().in_grace(now)) return {};
  const bool hopeless = std::all_of(claims_.begin(), claims_.end(),
                                    [](const auto& entry) { return entry.second.helpless; });
  if (hopeless) return AskBeyondGap(now, patience, ledger, members, out);
  const std::string donor = Choose(now, patience, members.roster());
  if (donor.empty()) return {};
  const absl::Status may = MayClaim(donor);
  if (!may.ok()) return {{donor, may}};
  Ask(now, donor, version + 1, !ledger.genesis(), members, out);
  return {};
}

void Adoption::Ask(absl::Time now, const std::string& peer, uint64_t first, bool genesis,
                   const Members& members, RunOutput* out) {
  asked_ = peer;
  asked_at_ = now;
  asked_first_ = first;
  v1::CoordinatorMessage message;
  message.mutable_send_headers()->set_first_version(first);
  message.mutable_send_headers()->set_genesis(genesis);
  members.SendTo(peer, std::move(message), out);
  out->Say(absl::StrCat("the store is behind its peers: peer ", peer,
                        " is asked for the headers from ", first, " to ",
                        claims_.at(peer).version));
}

// Asks the connected peer with the oldest header, because that loses the fewest headers.
std::vector<Adoption::Refusal> Adoption::AskBeyondGap(absl::Time now, absl::Duration patience,
                                                      const Ledger& ledger, const Members& members,
                                                      RunOutput* out) {
  if (!asked_.empty()) {
    if (now < asked_at_ + patience) return {};
    Drop(kUnanswered);
  }
  if (!ledger.genesis() || !ledger.is_signed()) return RefuseAll(ledger.version());
  std::string chosen;
  bool awaited = false;
  for (const auto& [peer, claim] : claims_) {
    if (claim.oldest == 0) continue;
    const RosterMember* member = members.roster().Find(peer);
    const bool here = member != nullptr && member->connected() && member->present();
    awaited = awaited || !here;
    if (here && (chosen.empty() || claim.oldest < claims_.at(chosen).oldest)) chosen = peer;
  }
  if (!chosen.empty() && !MayClaim(chosen).ok()) return {{chosen, MayClaim(chosen)}};
  if (chosen.empty()) return awaited ? std::vector<Refusal>() : RefuseAll(ledger.version());
  // Asks for the genesis as well, to check that the history belongs to this run.
  Ask(now, chosen, claims_.at(chosen).oldest, true, members, out);
  return {};
}

absl::StatusOr<bool> Adoption::OnHeaders(const std::string& peer, const v1::Headers& headers,
                                         const Ledger& ledger, LeaseBook* leases, RunOutput* out) {
  const uint64_t version = ledger.version();
  if (asked_ != peer) return false;  // too late: another peer was asked
  if (headers.headers_size() > 0 && headers.headers(0).version() <= version)
    return false;  // repeated or late
  const bool fresh = !ledger.genesis();
  const bool bare = (fresh || asked_first_ > version + 1) && !headers.has_genesis();
  const bool useless =
      headers.headers_size() == 0 || bare || headers.headers(0).version() > asked_first_;
  if (useless) {
    NoteHelpless(peer, headers, asked_first_, out);
    return false;
  }
  if (headers.headers_size() > kMostHeaders) {
    return absl::InvalidArgumentError("more than 256 headers in one message");
  }
  const uint64_t first = headers.headers(0).version();
  const bool gap = first > version + 1;
  // Takes all of them or none, so that the message about a lying peer is simple.
  if (fresh) {
    const absl::Status valid = CheckInitialState(ledger.spec(), nullptr, headers.genesis());
    if (!valid.ok()) return valid;
    if (const v1::RunSpec& spec = headers.genesis().spec(); spec.has_parent()) {
      *leases = LeaseBook(LeaseRecords{spec.parent().next_sample(), {}});
    }
  }
  if (gap) {
    const absl::Status same = ledger.CheckGenesis(headers.genesis());
    if (!same.ok()) return same;
  }
  const absl::Status valid =
      ledger.CheckNext(fresh ? headers.genesis() : *ledger.genesis(), headers, leases);
  if (!valid.ok()) {
    return absl::Status(valid.code(), absl::StrCat("the history that it tells is not the run's: ",
                                                   valid.message()));
  }
  if (gap) {
    out->Say(
        absl::StrCat("no peer that is here has the headers from ", version + 1, " to ", first - 1,
                     " any more: the history goes on with the signed one of version ", first,
                     ", and the samples that they may have spent are granted to nobody"),
        RunOutput::Severity::kWarning);
  }
  for (auto& [claimant, claim] : claims_) claim.helpless = claim.helpless && !gap;
  Answered(peer);
  adopted_ = true;
  return true;
}

void Adoption::NoteHelpless(const std::string& peer, const v1::Headers& headers, uint64_t wanted,
                            RunOutput* out) {
  out->Say(absl::StrCat("peer ", peer, " no longer has the header of version ", wanted),
           RunOutput::Severity::kWarning);
  const auto it = claims_.find(peer);
  if (it != claims_.end()) {
    it->second.helpless = true;
    it->second.oldest = headers.headers_size() > 0 ? headers.headers(0).version() : 0;
  }
  Drop(kUnanswered);
}

std::vector<Adoption::Reached> Adoption::TakeReached(const Ledger& ledger) {
  std::vector<Reached> all;
  for (const auto& [peer, claim] : claims_) {
    if (claim.version > ledger.version()) continue;
    Reached reached = {peer, claim.held, claim.version, absl::OkStatus()};
    const std::string digest = ledger.digest(claim.version);
    // The digest of a version in a gap is unknown. The peer checks it against its own chain.
    if (!digest.empty() && digest != claim.header_digest) {
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
