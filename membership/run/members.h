// Members: who takes part in a run, what is known of each beside its membership, and what is sent
// to them.
//
// What members are told of each other is RosterNews'. Pure; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "atoll/v1/admin.pb.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"
#include "membership/planning/reduction_plan.h"
#include "membership/run/ledger.h"
#include "membership/run/pace.h"
#include "membership/run/roster.h"
#include "membership/run/roster_news.h"
#include "membership/run/run_output.h"

namespace atolld {

// What a run keeps of a peer beside its membership and its training.
struct PeerInfo {
  std::optional<v1::WorkerReady> worker;
  std::string worker_trouble;    // why no worker of it trains; empty: one does, or none has failed
  bool held_back = false;        // ... by the machine's owner, which is no failure
  uint32_t worker_failures = 0;  // workers in a row that ended without a contribution
  v1::PeerProgress progress;
  std::string signing_key;                        // of its last Hello; empty: it has told none
  absl::Time progress_at = absl::InfinitePast();  // when it came
  uint64_t data_refused = 0;    // updates that were not finite, or losses far above the others'
  uint64_t suspicions = 0;      // accounts that differ from another's, with nothing to decide
  std::string offence;          // what was noticed last; empty: nothing
  SessionId told_session = 0;   // on which it has been told the roster
  uint64_t rounds = 0;          // contributed and committed
  uint64_t contributed = 0;     // the newest entry that names it, of those that are known here
  bool follows_changes = true;  // of the roster, and brief plans; release.h
  uint64_t tokens = 0;
  std::string state_digest;  // newest reported
  uint64_t state_version = 0;
  // version up to which it is not asked to reduce: it was not reachable
  uint64_t spared_until = 0;
  // until when it is not asked again though nobody else could reduce: an attempt has failed
  absl::Time dialled_in_vain_until = absl::InfinitePast();
  StepTimes step_times;
  std::optional<v1::Utilisation> utilisation;  // of its last contribution

  bool Reported(uint64_t version) const {  // the digest of its state of this version
    return !state_digest.empty() && state_version == version;
  }
};

class Members {
 public:
  // What a Hello has shown of the peer that said it.
  struct Joined {
    bool same_process = false;  // as the one that was known
    bool first_word = false;    // of this process, since the coordinator's start
  };

  // `settings` outlives it.
  Members(const RunSettings& settings, const StoredRun& stored, absl::Time now);

  const Roster& roster() const { return roster_; }
  // To change it; NoteChange() or Record() where the others must know.
  Roster& roster() { return roster_; }
  PeerInfo& info(const std::string& peer) { return infos_[peer]; }
  const PeerInfo* FindInfo(const std::string& peer) const;  // nullptr: nothing is known
  const std::map<std::string, PeerInfo>& infos() const { return infos_; }

  // May it join? The reason, in one sentence, if not; see CheckHello and Ledger::CheckChain.
  absl::Status Admit(const Ledger& ledger, const v1::Hello& hello) const;
  // It said Hello on this session, and is admitted. Ends a session that this one replaces.
  Joined Join(absl::Time now, SessionId session, const v1::Hello& hello, RunOutput* out);
  // What came of dialling it at this address. If it has claimed that, and answered, it is its own.
  void NoteProbe(const RunOutput::Probe& probe, ProbeResult result, RunOutput* out);
  std::string PeerOf(SessionId session) const;  // "" if it is no member's current one
  void Forget(const std::string& peer, RunUpdate* update);

  void NoteChange() { news_.NoteChange(); }
  RosterNews& news() { return news_; }
  const RosterNews& news() const { return news_; }
  // The keys that are refused whatever their names; all others are told.
  void SetRevoked(const std::vector<KeyRecord>& keys);
  void ForgetStates() {  // version 0 is to be made anew
    roster_.ForgetStates();
    NoteChange();
  }
  void Record(const std::string& peer, RunUpdate* update);  // it is stored as it is, and told
  void NoteEntry(const v1::EntryHeader& header);            // that is part of the history
  // Whether an entry after this version names the peer, or may, since it is not known here.
  bool MayBeTaken(const std::string& peer, uint64_t version) const;
  void NoteState(const std::string& peer, uint64_t version, const std::string& digest);
  void NoteSuspicion(const std::string& peer, const std::string& offence);
  // Its worker has ended, ready or not. What nobody knows yet is said.
  void NoteProgress(absl::Time now, const std::string& peer, const v1::PeerProgress& progress);
  void NoteWorkerLost(const std::string& peer, const v1::WorkerLost& lost, bool was_ready,
                      RunOutput* out);
  // Why its worker does not train; empty: it does, or is being started. True: it is news. What the
  // machine's owner decides counts as no failure.
  bool NoteWorkerTrouble(const std::string& peer, const std::string& trouble,
                         bool by_owner = false);
  void ForgetWorkerTrouble(const std::string& peer);  // it has a new process

  absl::Status OnStateReport(const std::string& peer, const v1::StateReport& report,
                             const Ledger& ledger, RunOutput* out);

  // What an operator asks of a peer. OK also where it is so already. NOT_FOUND: there is none.
  // FAILED_PRECONDITION: it is no member now. `sealed`: the run is.
  absl::Status Drain(const std::string& peer, const std::string& reason, bool sealed,
                     RunOutput* out);
  absl::Status Readmit(absl::Time now, const std::string& peer, RunOutput* out);
  // The peer's session ends. False: it was evicted before. True: it is gone now.
  absl::StatusOr<bool> Evict(absl::Time now, const std::string& peer, const std::string& reason,
                             bool sealed, RunOutput* out);
  // The same by the run itself, on evidence; false also of who was never seen.
  bool EvictLiar(absl::Time now, const std::string& peer, const std::string& evidence, bool sealed,
                 RunOutput* out);
  bool Evicted(const std::string& peer) const;
  void SendDrain(const std::string& peer, RunOutput* out) const;

  // Nothing is sent to those that are not connected.
  void SendTo(const std::string& peer, v1::CoordinatorMessage message, RunOutput* out) const;
  void SendTo(const std::string& peer, const RunOutput::Message& message, RunOutput* out) const;
  void SendToAll(v1::CoordinatorMessage message, RunOutput* out) const;
  // To this one the roster whole: to its new Session, after the Welcome.
  void SendRoster(const std::string& peer, RunOutput* out);
  // To all what has changed, if anything has, and if it is time for it (RosterNews).
  void SendRosterIfDue(absl::Time now, const std::optional<v1::Seal>& seal, RunOutput* out);

  // Who does not hold the sealed state yet; nobody before the seal. A peer that does not hold the
  // last state may need what the others have. Whoever comes back with less, or without a state, is
  // waited for as well.
  std::vector<std::string> Awaited(const std::optional<v1::Seal>& seal) const;
  bool Awaits(const v1::Seal& seal, const std::string& peer) const;  // it is one of them
  // Those of them that have been waited for since the seal, or since they came, for `patience`:
  // nobody waits for them any more, and they are named.
  std::vector<std::string> StopAwaiting(absl::Time now, const v1::Seal& seal,
                                        absl::Duration patience);
  void NoteSpeed(const std::string& peer, const v1::Ready& ready);
  // How many steps each of these is to do, in their order.
  std::vector<PacedSteps> StepsOf(absl::Span<const std::string> peers, const PaceSettings& pace,
                                  uint32_t fixed) const;
  // Those that can reduce for the entry of this version now. `lacking`: of the others that are here
  // what they wait for, in words.
  std::vector<ExchangeAggregator> Aggregators(absl::Time now, uint64_t version,
                                              std::string* lacking);
  // Whether anybody but this one, whom others can dial, holds the state of this version.
  bool AnotherHolds(const std::string& peer, uint64_t version) const;
  // Of the run: those that the workers of all who are here train, at least [run] peers.
  uint64_t Parties() const;
  // Of the workers' text; 0: no worker has told, or each has one of its own.
  uint64_t SamplesInPass(const v1::RunSpec& spec) const;
  // Why a run waits, and behind it why workers of peers that are here do not train; those that say
  // the same stand together. Nothing is added to an empty reason.
  std::string WithTroubles(const std::string& reason) const;
  bool AnybodyConnected() const;
  // Without what others know of it. `notes`: what its part in the round is (Round::Notes).
  v1::PeerStatus StatusOf(const v1::Member& member,
                          const std::map<std::string, std::string>& notes) const;
  // How far the clocks of the peers that the status names are from the wall clock: a heartbeat
  // takes no time worth telling.
  void ShowClocks(absl::Time now, absl::Time wall, v1::RunStatus* status) const;

 private:
  void NoteContributors(const v1::EntryHeader& header);
  void SayTaken(const RosterMember& member, RunOutput* out) const;
  void NoteQuorum(const std::string& said, bool sealed, RunOutput* out) const;

  const RunSettings& settings_;
  Roster roster_;
  std::map<std::string, PeerInfo> infos_;
  uint64_t noted_ = 0;       // the newest entry whose contributors are known,
  uint64_t noted_from_ = 0;  // and the first behind which no later one is unknown
  std::map<std::string, absl::Time> awaited_since_;  // after the seal; none is begun anew
  std::set<std::string> given_up_;                   // were waited for long enough
  RosterNews news_;
};

}  // namespace atolld
