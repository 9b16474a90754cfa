// Peer, the end: a replica at the sealed version closes its log and stays for whoever still needs
// what it holds; one that nobody can bring there says so and ends.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/base/status_macros.h"
#include "daemon/peer/peer.h"
#include "daemon/peer/stranded.h"

namespace atolld {

// Said again in each Session. The roster that follows it names those that are waited for.
absl::Status Peer::OnSealed(const v1::Seal& seal) {
  RETURN_IF_ERROR(CheckSealTold(keeper_.genesis(), seal));
  if (keeper_.has_state() && keeper_.version() == seal.version() &&
      seal.header_digest() != ToBytes(keeper_.header_digest())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "its seal closes another history than the one that is here at version ", seal.version()));
  }
  const bool first = !seal_.has_value();
  seal_ = seal;
  sealed_told_ = env_.executor.Now();
  roster_told_ = false;
  CheckSealed();
  if (first) WatchEnd();
  return absl::OkStatus();
}

// What only time decides.
void Peer::WatchEnd() {
  if (finishing_) return;
  CheckFarewell();
  CheckStranded();
  env_.executor.RunAfter(failure_timeout_ / 4, guard_.Wrap([this] { WatchEnd(); }));
}

void Peer::CheckSealed() {
  if (!seal_ || sealing_ || finishing_ || !keeper_.has_state()) return;
  if (keeper_.version() != seal_->version()) return;
  const std::optional<Digest> state = keeper_.StateDigestOf(seal_->version());
  if (!state) return;
  if (ToBytes(*state) != seal_->state_digest()) {
    return MendSealed(*state);
  }
  sealing_ = true;
  keeper_.Seal(*seal_, [this, digest = ToHex(*state)](absl::Status status) {
    if (!status.ok()) return Finish(status, std::string(status.message()));
    seal_written_ = true;
    env_.log.Info(absl::StrCat("run ", seal_->run_id(), " is sealed at version ", seal_->version(),
                               ", state ", digest));
    CheckFarewell();
  });
}

// The seal names another state than this replica's: the last chance to repair it, while others may
// still be there to fetch from.
void Peer::MendSealed(const Digest& state) {
  const absl::StatusOr<Digest> expected = DigestFromBytes(seal_->state_digest());
  if (!expected.ok()) return;
  if (!mending_seal_) {
    env_.executor.RunAfter(2 * failure_timeout_, guard_.Wrap([this, state] {
      if (sealing_) return;
      const absl::Status differs = absl::DataLossError(
          absl::StrCat("the run is sealed at version ", seal_->version(),
                       " with another state than this replica's ", ToHex(state)));
      Finish(differs, std::string(differs.message()));
    }));
  }
  mending_seal_ = true;
  keeper_.Require(*expected);
}

// Others may still need the last entries from here. Who does, and is alive, the coordinator knows;
// one that stays away for failure_timeout is gone like any other silent process, and with it the
// reason to stay.
void Peer::CheckFarewell() {
  if (!seal_written_ || finishing_) return;
  const bool alone = !link_.up() && env_.executor.Now() >= coordinator_lost_ + failure_timeout_;
  if (!alone) {
    if (!roster_told_) return;
    std::vector<std::string> awaited(roster_.awaited().begin(), roster_.awaited().end());
    awaited.erase(std::remove(awaited.begin(), awaited.end(), config_.peer.id), awaited.end());
    const std::string names = absl::StrJoin(awaited, ", ");
    if (!names.empty() && names != told_awaited_) {
      env_.log.Info(
          absl::StrCat("staying for ", names, ": not at version ", seal_->version(), " yet"));
    }
    told_awaited_ = names;
    if (!names.empty()) return;
  }
  Finish(absl::OkStatus(), "the run is sealed");
}

// Nobody has given anything for so long that whoever can come back by himself has: a silent donor
// is dead, one that had lost the coordinator has redialled, and what it offers was asked for.
void Peer::CheckStranded() {
  if (finishing_ || seal_written_ || mending_seal_ || !link_.up()) return;
  const std::optional<FetchFailure>& failing = keeper_.failing();
  if (!failing) return;
  const absl::Duration patience = 2 * failure_timeout_ + CoordinatorLink::kLongestPause;
  if (env_.executor.Now() < std::max(failing->since, sealed_told_) + patience) return;
  std::optional<uint64_t> held;
  if (keeper_.has_state()) held = keeper_.version();
  const std::string line =
      StrandedLine(*seal_, held, roster_, newest_header_, config_.peer.id, failing->why);
  Finish(absl::NotFoundError(line), line);
}

std::string Peer::WaitsFor() const {
  if (seal_) {
    if (seal_written_) return "The run is sealed and all of it is here";
    return absl::StrCat(
        "The run is sealed at version ", seal_->version(), "; this replica holds ",
        keeper_.has_state() ? absl::StrCat("version ", keeper_.version()) : "nothing",
        " and waits to be told who has the rest");
  }
  if (!keeper_.has_state()) return "This peer waits for a run to join";
  return absl::StrCat("This replica holds version ", keeper_.version(), " of run ",
                      keeper_.genesis().spec().run_id(), worker_ ? " and trains on" : "",
                      "; what follows is the coordinator's to say");
}

}  // namespace atolld
