// A store that is behind its peers: restored from a copy, or lost. They tell it the history.
#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "membership/run/admission.h"
#include "membership/run/run.h"

namespace atolld {
namespace {

constexpr int kMostHeaders = 256;  // membership.proto

// What a lost lease book may have granted beyond the newest entry: far above any run's, far below
// what overflows.
constexpr uint64_t kMostSamplesAhead = uint64_t{1} << 40;

// Times that a peer may leave the question unanswered, failure_timeout each: the run stands still
// meanwhile.
constexpr int kMostSilences = 3;

std::string Hex(const std::string& digest) { return absl::BytesToHexString(digest); }

}  // namespace

bool Run::Ahead(uint64_t version) const {
  return genesis_ ? version > this->version() : version > 0;
}

absl::Status Run::MayAdopt(uint64_t version, const std::string& digest) const {
  if (version > spec_.rounds()) {
    return absl::FailedPreconditionError(
        absl::StrCat("it holds version ", version, ", but the run ends at ", spec_.rounds()));
  }
  if (!seal_ && this->version() == recovered_) return absl::OkStatus();
  // Its history left ours at some version that this process, or one before, has committed anew.
  return absl::FailedPreconditionError(absl::StrCat(
      "it holds version ", version, " with header ", Hex(digest), ", but the run's newest is ",
      this->version(), " with header ", Hex(digests_.back()), seal_ ? ", and it is sealed" : "",
      ": two histories; to join this one start it with an empty directory"));
}

void Run::OutgrowEpoch(absl::Time now, uint64_t heard) {
  Say(absl::StrCat("the store is older than the run: epoch ", heard,
                   " was there already; this becomes epoch ", heard + 1),
      RunOutput::Severity::kWarning);
  epoch_ = heard;
  if (exchange_) {
    GiveUpExchange(now);
  } else {
    BeginEpoch(now);
    SendToAll(Welcome());
  }
}

bool Run::AdvanceAdoption(absl::Time now) {
  if (adoption_.empty()) {
    if (adopted_) EndAdoption();
    return false;
  }
  // Its entry would fork the history.
  if (exchange_) GiveUpExchange(now);
  reason_ = absl::StrCat("the store is at version ", version(), ", peers hold version ",
                         adoption_.longest(), ": their history is being adopted");
  // The longest history of all that come back, not of the first.
  if (roster_.in_grace(now)) return true;
  if (adoption_.hopeless()) {
    const absl::Status why = absl::FailedPreconditionError(absl::StrCat(
        "the coordinator's store ends at version ", version(),
        ", and no peer that is here has the headers from ", version() + 1,
        " on any more; restore a newer store, or start with an empty directory to join this one"));
    std::vector<std::string> claimants;
    for (const auto& [peer, claim] : adoption_.claims()) claimants.push_back(peer);
    for (const std::string& peer : claimants) Refuse(now, peer, why);
    if (adopted_) EndAdoption();
    return false;
  }
  const std::string donor = adoption_.Choose(now, settings_.failure_timeout, roster_);
  if (donor.empty()) return true;
  if (adoption_.silences(donor) >= kMostSilences) {
    Refuse(now, donor, absl::FailedPreconditionError("it does not tell the history that it holds"));
    return AdvanceAdoption(now);
  }
  adoption_.Ask(now, donor);
  v1::CoordinatorMessage message;
  message.mutable_send_headers()->set_first_version(version() + 1);
  message.mutable_send_headers()->set_genesis(!genesis_);
  SendTo(donor, std::move(message));
  Say(absl::StrCat("the store is behind its peers: peer ", donor, " is asked for the headers from ",
                   version() + 1, " to ", adoption_.claims().at(donor).version));
  return true;
}

absl::Status Run::OnHeaders(absl::Time now, const std::string& peer, const v1::Headers& headers) {
  if (adoption_.asked() != peer) return absl::OkStatus();  // too late: another was asked
  if (headers.headers_size() > 0 && headers.headers(0).version() <= version())
    return absl::OkStatus();  // said before, and late
  const bool useless = headers.headers_size() == 0 || (!genesis_ && !headers.has_genesis()) ||
                       headers.headers(0).version() > version() + 1;
  if (useless) {
    Say(absl::StrCat("peer ", peer, " no longer has the header of version ", version() + 1),
        RunOutput::Severity::kWarning);
    adoption_.SetHelpless(peer);
    return absl::OkStatus();
  }
  if (headers.headers_size() > kMostHeaders) {
    return absl::InvalidArgumentError("more than 256 headers in one message");
  }
  // All of them or nothing: what is said of a peer that lies is then simple.
  if (!genesis_) {
    const absl::Status valid = CheckInitialState(spec_, nullptr, headers.genesis());
    if (!valid.ok()) return valid;
  }
  const v1::Genesis& genesis = genesis_ ? *genesis_ : headers.genesis();
  std::string previous = genesis_ ? digests_.back() : settings_.genesis_digest(genesis);
  uint64_t at = version();
  LeaseBook leases = leases_;
  for (const v1::EntryHeader& header : headers.headers()) {
    absl::Status valid = settings_.check_header(genesis, at, previous, header);
    for (const v1::Contributor& contributor : header.contributors()) {
      if (!valid.ok() || contributor.samples_size() == 0) continue;
      const std::vector<v1::SampleRange> spent(contributor.samples().begin(),
                                               contributor.samples().end());
      if (!leases.MarkSpent(spent)) {
        valid = absl::FailedPreconditionError(
            absl::StrCat("entry ", header.version(), ": samples of contributor ",
                         contributor.peer(), " are spent by another entry already"));
      }
    }
    if (!valid.ok()) {
      return absl::Status(valid.code(), absl::StrCat("the history that it tells is not the run's: ",
                                                     valid.message()));
    }
    previous = settings_.header_digest(header);
    ++at;
  }
  adoption_.Answered(peer);
  if (!genesis_) AcceptGenesis(headers.genesis());
  leases_ = std::move(leases);
  for (const v1::EntryHeader& header : headers.headers()) AdoptHeader(header);
  SettleClaims(now);
  return absl::OkStatus();
}

void Run::AdoptHeader(const v1::EntryHeader& header) {
  v1::RoundRecord record;
  record.set_version(header.version());
  record.set_contributors(static_cast<uint32_t>(header.contributors_size()));
  record.set_elapsed_seconds(earlier_seconds_);  // no later than anything that follows
  uint64_t tokens = 0;
  for (const v1::Contributor& contributor : header.contributors()) {
    PeerInfo& info = peers_[contributor.peer()];
    ++info.rounds;
    info.tokens += contributor.tokens();
    tokens += contributor.tokens();
  }
  record.set_tokens(tokens);
  digests_.push_back(settings_.header_digest(header));
  header_ = header;
  rounds_.push_back(record);
  out_.update.headers.push_back(header);
  out_.update.rounds.push_back(record);
  leases_changed_ = true;
  recovered_ = version();
  adopted_ = true;
  behind_ = true;
}

void Run::SettleClaims(absl::Time now) {
  if (!round_.started()) out_.update.started = true;
  round_.Skip(version() + 1);
  roster_changed_ = true;
  // Updates of those whose samples are spent are in the history already.
  for (const auto& [peer, member] : roster_.members()) {
    TrainingState& trainer = round_.trainer(peer);
    if (trainer.activity == Activity::kIdle || leases_.holds(peer)) continue;
    trainer.activity = Activity::kIdle;
    trainer.train_started.reset();
  }
  std::vector<std::pair<std::string, Adoption::Claim>> reached;
  for (const auto& [peer, claim] : adoption_.claims()) {
    if (claim.version <= version()) reached.emplace_back(peer, claim);
  }
  for (const auto& [peer, claim] : reached) {
    adoption_.Remove(peer);
    if (digests_[claim.version] == claim.header_digest) {
      AdoptSamples(now, peer, claim.samples);
    } else {
      Refuse(now, peer,
             absl::FailedPreconditionError(absl::StrCat(
                 "its version ", claim.version, " has header ", Hex(claim.header_digest),
                 ", the run's has ", Hex(digests_[claim.version]),
                 ": two histories; to join this one start it with an empty directory")));
    }
  }
}

void Run::ReachSamples(const std::vector<v1::SampleRange>& samples) {
  if (version() != recovered_) return;  // since then this process alone has granted what is new
  uint64_t end = 0;
  for (const v1::SampleRange& range : samples) {
    if (range.first() > leases_.next() + kMostSamplesAhead || range.count() > kMostSamplesAhead)
      return;
    end = std::max(end, range.first() + range.count());
  }
  if (end <= leases_.next()) return;
  leases_.Reach(end);
  leases_changed_ = true;
}

void Run::EndAdoption() {
  adopted_ = false;
  Say(absl::StrCat("the store has adopted its peers' history up to version ", version(),
                   ", header ", Hex(digests_.back())),
      RunOutput::Severity::kWarning);
  if (evaluation_ && evaluation_->version() != version()) evaluation_.reset();
  last_reached_ = absl::InfiniteFuture();
  SendToAll(Welcome());
}

// -----------------------------------------------------------------------------------------------
// A peer that says Hello

void Run::AdoptSamples(absl::Time now, const std::string& peer,
                       const std::vector<v1::SampleRange>& samples) {
  TrainingState& trainer = round_.trainer(peer);
  if (behind_) ReachSamples(samples);
  const bool contributes = exchange_ && exchange_->Contributes(peer);
  if (!samples.empty() && leases_.Adopt(peer, samples)) {
    leases_changed_ = true;
    if (trainer.activity == Activity::kIdle) {
      trainer.activity = Activity::kTraining;
      trainer.train_started.reset();
    }
    return;
  }
  trainer.activity = Activity::kIdle;
  trainer.train_started.reset();
  if (contributes) {
    // Its contribution is gone. Chunks of it may have been averaged: its samples stay its own until
    // the commit tells.
    const std::string lost[] = {peer};
    Act(now, exchange_->OnLost(lost));
  } else if (leases_.holds(peer)) {
    leases_.Return(peer);
    leases_changed_ = true;
  }
}

// Another process than the one that the exchange began with: what an aggregator had averaged is
// gone. (Of a contributor its samples tell.)
void Run::LoseFromExchange(absl::Time now, const std::string& peer) {
  if (!exchange_ || !exchange_->TakesPart(peer) || exchange_->Contributes(peer)) return;
  const std::string lost[] = {peer};
  Act(now, exchange_->OnLost(lost));
}

}  // namespace atolld
