#include "daemon/peer/run_end.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/base/status_macros.h"
#include "daemon/peer/coordinator_link.h"

namespace atolld {
namespace {

std::string Lacks(uint64_t last, const std::optional<uint64_t>& held) {
  if (!held) return absl::StrCat("holds nothing and lacks the state of version ", last);
  const std::string holds = absl::StrCat("holds version ", *held, " and lacks ");
  if (*held >= last)
    return absl::StrCat(holds, "the state of the history");  // its state has
                                                             // drifted
  if (*held + 1 == last) return absl::StrCat(holds, "entry ", last);
  return absl::StrCat(holds, "entries ", *held + 1, " to ", last);
}

}  // namespace

std::string StrandedLine(const v1::Seal& seal, const std::optional<uint64_t>& held,
                         const v1::Roster& roster, const v1::EntryHeader& newest,
                         const std::string& self, const std::string& why) {
  std::vector<std::string> holders;
  for (const v1::Member& member : roster.members()) {
    if (member.peer() == self || !member.has_state() || member.version() < seal.version()) continue;
    holders.push_back(absl::StrCat(member.peer(), " (", member.state(), ")"));
  }
  if (holders.empty() && newest.version() == seal.version()) {
    for (const v1::Contributor& contributor : newest.contributors()) {
      if (contributor.peer() != self) holders.push_back(contributor.peer());
    }
  }
  return absl::StrCat("run ", seal.run_id(), " is over, sealed at version ", seal.version(),
                      "; this replica ", Lacks(seal.version(), held), ", and nobody gives it (",
                      why, "). ",
                      holders.empty() ? "Nobody is known to have had it"
                                      : absl::StrCat("It was at ", absl::StrJoin(holders, ", ")),
                      ": start one that has it, then this peer again, or take the model from there "
                      "with `atoll export`");
}

RunEnd::RunEnd(Env env, std::string self, ReplicaKeeper& keeper, Events events)
    : env_(env), self_(std::move(self)), keeper_(keeper), events_(std::move(events)) {}

void RunEnd::Follow(const v1::EntryHeader& newest, absl::Duration failure_timeout) {
  newest_ = newest;
  failure_timeout_ = failure_timeout;
}

void RunEnd::OnRoster(const v1::Roster& roster) {
  roster_ = roster;
  roster_told_ = seal_.has_value();
  CheckFarewell();
}

absl::Status RunEnd::OnSealed(const v1::Seal& seal) {
  RETURN_IF_ERROR(CheckSealTold(keeper_.genesis(), seal));
  if (keeper_.has_state() && keeper_.version() == seal.version() &&
      seal.header_digest() != ToBytes(keeper_.header_digest())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "its seal closes another history than the one that is here at version ", seal.version()));
  }
  const bool first = !seal_.has_value();
  seal_ = seal;
  told_ = env_.executor.Now();
  roster_told_ = false;
  OnDigest();
  if (first) Watch();
  return absl::OkStatus();
}

// Checks, from time to time, the conditions that only time decides.
void RunEnd::Watch() {
  if (over_) return;
  CheckFarewell();
  CheckStranded();
  env_.executor.RunAfter(failure_timeout_ / 4, guard_.Wrap([this] { Watch(); }));
}

void RunEnd::OnDigest() {
  if (!seal_ || sealing_ || over_ || !keeper_.has_state()) return;
  if (keeper_.version() != seal_->version()) return;
  const std::optional<Digest> state = keeper_.StateDigestOf(seal_->version());
  if (!state) return;
  if (ToBytes(*state) != seal_->state_digest()) {
    return Mend(*state);
  }
  sealing_ = true;
  keeper_.Seal(*seal_, guard_.Wrap([this, digest = ToHex(*state)](absl::Status status) {
    if (!status.ok()) return events_.finish(status, std::string(status.message()));
    written_ = true;
    env_.log.Info(absl::StrCat("run ", seal_->run_id(), " is sealed at version ", seal_->version(),
                               ", state ", digest));
    CheckFarewell();
  }));
}

// The seal names another state than this replica's: This is the last chance to repair it, while
// other peers may still be there to fetch from.
void RunEnd::Mend(const Digest& state) {
  const absl::StatusOr<Digest> expected = DigestFromBytes(seal_->state_digest());
  if (!expected.ok()) return;
  if (!mending_) {
    env_.executor.RunAfter(2 * failure_timeout_, guard_.Wrap([this, state] {
      if (sealing_) return;
      const absl::Status differs = absl::DataLossError(
          absl::StrCat("the run is sealed at version ", seal_->version(),
                       " with another state than this replica's ", ToHex(state)));
      events_.finish(differs, std::string(differs.message()));
    }));
  }
  mending_ = true;
  keeper_.Require(*expected);
}

// Other peers may still need the last entries from here. The coordinator knows which living peers
// do. If the coordinator is away for failure_timeout, it counts as gone like any other silent
// process, and there is no reason to stay.
void RunEnd::CheckFarewell() {
  if (!written_ || over_) return;
  const bool alone =
      !events_.coordinator_up() && env_.executor.Now() >= coordinator_lost_ + failure_timeout_;
  if (!alone) {
    if (!roster_told_) return;
    std::vector<std::string> awaited(roster_.awaited().begin(), roster_.awaited().end());
    awaited.erase(std::remove(awaited.begin(), awaited.end(), self_), awaited.end());
    const std::string names = absl::StrJoin(awaited, ", ");
    if (!names.empty() && names != told_awaited_) {
      env_.log.Info(
          absl::StrCat("staying for ", names, ": not at version ", seal_->version(), " yet"));
    }
    told_awaited_ = names;
    if (!names.empty()) return;
  }
  events_.finish(absl::OkStatus(), "the run is sealed");
}

// Checks whether this peer is stranded: no peer has given anything for so long that every peer
// which can come back has done so. By then a silent donor counts as dead, and a donor that had lost
// the coordinator has dialled again and was asked for its data.
void RunEnd::CheckStranded() {
  if (over_ || written_ || mending_ || !events_.coordinator_up()) return;
  const std::optional<FetchFailure>& failing = keeper_.failing();
  if (!failing) return;
  const absl::Duration patience = 2 * failure_timeout_ + CoordinatorLink::kLongestPause;
  std::optional<uint64_t> held;
  if (keeper_.has_state()) held = keeper_.version();
  const std::string line = StrandedLine(*seal_, held, roster_, newest_, self_, failing->why);
  if (env_.executor.Now() >= std::max(failing->since, told_) + patience) {
    return events_.finish(absl::NotFoundError(line), line);
  }
  if (!roster_told_ || std::exchange(stranded_told_, true)) return;
  env_.log.Warning(absl::StrCat(line, ". Waiting for a peer that has it, for ",
                                absl::FormatDuration(patience), " at most"));
}

std::string RunEnd::WaitsFor() const {
  if (written_) return "The run is sealed and all of it is here";
  return absl::StrCat("The run is sealed at version ", seal_->version(), "; this replica holds ",
                      keeper_.has_state() ? absl::StrCat("version ", keeper_.version()) : "nothing",
                      " and waits to be told which peers have the rest");
}

}  // namespace atolld
