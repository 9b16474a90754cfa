// Members: keeps the members of a run and what is known about each of them, and sends messages to
// them.
//
// RosterNews decides which changes of the roster the members are sent. The class Members has more
// than forty methods because the run knows and reaches its members only through it: each report of
// a peer, each order about a peer and each message to a peer has a method. Pure. Used by one
// thread.
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
#include "membership/run/member_reach.h"
#include "membership/run/pace.h"
#include "membership/run/roster.h"
#include "membership/run/roster_news.h"
#include "membership/run/run_output.h"

namespace atolld {

// What the run knows about a peer except its membership and its training. It has more than twenty
// members because it is a record with a value for each fact; its one method only tests two of them.
struct PeerInfo {
  std::optional<v1::WorkerReady> worker;
  // The reason why no worker of the peer trains; empty if one does, or none has failed.
  std::string worker_trouble;
  // True if the machine's owner has stopped the worker, which is not a failure.
  bool held_back = false;
  // How many workers in a row have ended without a contribution.
  uint32_t worker_failures = 0;
  v1::PeerProgress progress;
  std::string signing_key;                        // the key in its last Hello; empty if none
  absl::Time progress_at = absl::InfinitePast();  // the time of `progress`
  // The number of updates that were not finite, or whose loss was far above the others'.
  uint64_t data_refused = 0;
  // How often the peer's report contradicted another peer's and nothing showed which was right.
  uint64_t suspicions = 0;
  std::string offence;         // the last misbehaviour that was noticed; empty if there is none
  SessionId told_session = 0;  // the session on which it was sent the roster
  // The instance of a former process whose Hello was refused since the last Join; 0 if none.
  uint64_t refused_instance = 0;
  uint32_t turns = 0;  // the number of processes in a row that came back after such a refusal
  absl::Time turned_at = absl::InfinitePast();  // the time of the newest turn
  uint64_t rounds = 0;       // the committed rounds to which the peer contributed
  uint64_t contributed = 0;  // the version of the newest known entry that names the peer
  // True if it understands RosterDelta and brief plans (see release.h).
  bool follows_changes = true;
  uint64_t tokens = 0;
  std::string state_digest;  // the digest of the newest state that the peer reported
  uint64_t state_version = 0;
  // The version up to which it must not reduce, because a mean that it averaged was in doubt.
  uint64_t spared_until = 0;
  // The end of the time in which it must not reduce at all, because it could not be dialled.
  absl::Time dialled_in_vain_until = absl::InfinitePast();
  StepTimes step_times;
  std::optional<v1::Utilisation> utilisation;  // from the peer's last contribution

  // True if the peer reported the digest of its state of this version.
  bool Reported(uint64_t version) const {
    return !state_digest.empty() && state_version == version;
  }
};

class Members {
 public:
  // What a Hello has shown about the process that sent it.
  struct Joined {
    // True if the Hello comes from the process that was already known.
    bool same_process = false;
    // True if this is the process's first Hello since the coordinator's start.
    bool first_word = false;
  };

  // `settings` must outlive this object.
  Members(const RunSettings& settings, const StoredRun& stored, absl::Time now);

  const Roster& roster() const { return roster_; }
  // Call NoteChange() or Record() after a change that other members must know.
  Roster& roster() { return roster_; }
  PeerInfo& info(const std::string& peer) { return infos_[peer]; }
  const PeerInfo* FindInfo(const std::string& peer) const;  // nullptr if nothing is known
  const std::map<std::string, PeerInfo>& infos() const { return infos_; }

  // Checks whether the peer may join; an error gives the reason in one sentence (see CheckHello and
  // Ledger::CheckChain). Fails with UNAVAILABLE if a former process or Session of the peer sent the
  // Hello (see Roster::IsFormer), and then sends the session the newer life.
  absl::Status Admit(const Ledger& ledger, SessionId session, const v1::Hello& hello,
                     RunOutput* out);
  // Called when an admitted peer sent a Hello on `session`. Ends the session that it replaces.
  Joined Join(absl::Time now, SessionId session, const v1::Hello& hello, RunOutput* out);
  // Takes the result of dialling the peer at this address. If the peer claimed the address and
  // answered, the address becomes its own. Returns false if the dial before this one failed. A
  // refusal then does not show that the peer has ended, because its address may be a wrong one.
  bool NoteProbe(absl::Time now, const RunOutput::Probe& probe, ProbeResult result, RunOutput* out);

  // Follows which members cannot reach which others.
  MemberReach& reach() { return reach_; }
  const MemberReach& reach() const { return reach_; }
  std::string PeerOf(SessionId session) const;  // "" if the session is not a member's current one
  void Forget(const std::string& peer, RunUpdate* update);

  void NoteChange() { news_.NoteChange(); }
  RosterNews& news() { return news_; }
  const RosterNews& news() const { return news_; }
  // Sets the keys that are refused under any name, and sends them to all peers.
  void SetRevoked(const std::vector<KeyRecord>& keys);
  // Called when version 0 must be made anew.
  void ForgetStates() {
    roster_.ForgetStates();
    NoteChange();
  }
  // Stores the member in its present state, and has the change sent to the others.
  void Record(const std::string& peer, RunUpdate* update);
  // Called for each entry that has become part of the history. Records its contributors.
  void NoteEntry(const v1::EntryHeader& header);
  // Returns true if an entry after this version names the peer, or may name it because the entry is
  // unknown.
  bool MayBeTaken(const std::string& peer, uint64_t version) const;
  void NoteState(const std::string& peer, uint64_t version, const std::string& digest);
  void NoteSuspicion(const std::string& peer, const std::string& offence);
  // NoteWorkerLost is called when the peer's worker has ended, whether it was ready or not. It logs
  // the reason if that is new.
  void NoteProgress(absl::Time now, const std::string& peer, const v1::PeerProgress& progress);
  void NoteWorkerLost(const std::string& peer, const v1::WorkerLost& lost, bool was_ready,
                      RunOutput* out);
  // Sets the reason why the peer's worker does not train; empty if it trains or is being started.
  // Returns true if the reason is new. A stop by the machine's owner is not counted as a failure.
  bool NoteWorkerTrouble(const std::string& peer, const std::string& trouble,
                         bool by_owner = false);
  // Calls Roster::Tick. Before the first round (not `started`), reports the peers that are set
  // aside.
  std::vector<Roster::Death> Tick(absl::Time now, const Ledger& ledger, bool started,
                                  RunOutput* out);
  // Called when the peer has a new process.
  void ForgetWorkerTrouble(const std::string& peer);

  absl::Status OnStateReport(const std::string& peer, const v1::StateReport& report,
                             const Ledger& ledger, RunOutput* out);

  // Carry out an operator's orders about a peer. They also return OK if the order was carried out
  // before. They fail with NOT_FOUND if there is no such peer, and with FAILED_PRECONDITION if it
  // is not a member now. `sealed` is true if the run is sealed.
  absl::Status Drain(const std::string& peer, const std::string& reason, bool sealed,
                     RunOutput* out);
  absl::Status Readmit(absl::Time now, const std::string& peer, RunOutput* out);
  // Evicts the peer and ends its session. Returns false if it was already evicted.
  absl::StatusOr<bool> Evict(absl::Time now, const std::string& peer, const std::string& reason,
                             bool sealed, RunOutput* out);
  // Evicts a peer on the run's own decision, because of evidence. Returns false if it was already
  // evicted or was never seen.
  bool EvictLiar(absl::Time now, const std::string& peer, const std::string& evidence, bool sealed,
                 RunOutput* out);
  bool Evicted(const std::string& peer) const;
  void SendDrain(const std::string& peer, RunOutput* out) const;

  // The functions below send nothing to peers that are not connected.
  void SendTo(const std::string& peer, v1::CoordinatorMessage message, RunOutput* out) const;
  void SendTo(const std::string& peer, const RunOutput::Message& message, RunOutput* out) const;
  void SendToAll(v1::CoordinatorMessage message, RunOutput* out) const;
  // Sends the peer the whole roster, on its new Session after the Welcome.
  void SendRoster(const std::string& peer, RunOutput* out);
  // Sends all peers the changes of the roster, if there are any and they are due (see RosterNews).
  void SendRosterIfDue(absl::Time now, const std::optional<v1::Seal>& seal, RunOutput* out);

  // Returns the peers that do not hold the sealed state yet; returns none before the seal. The run
  // waits for them, because they may have to fetch that state from the others. A peer that comes
  // back without it is included.
  std::vector<std::string> Awaited(const std::optional<v1::Seal>& seal) const;
  // Returns true if the peer is one of those that Awaited returns.
  bool Awaits(const v1::Seal& seal, const std::string& peer) const;
  // Stops waiting for the peers that have been waited for longer than `patience` since the seal or
  // since they joined, and returns them.
  std::vector<std::string> StopAwaiting(absl::Time now, const v1::Seal& seal,
                                        absl::Duration patience);
  void NoteSpeed(const std::string& peer, const v1::Ready& ready);
  // Returns the number of steps for each of these peers, in their order.
  std::vector<PacedSteps> StepsOf(absl::Span<const std::string> peers, const PaceSettings& pace,
                                  uint32_t fixed) const;
  // Returns the aggregators that can reduce for the entry of this version now. Sets `lacking` to
  // what the other connected aggregators wait for, in words.
  std::vector<ExchangeAggregator> Aggregators(absl::Time now, uint64_t version,
                                              std::string* lacking);
  // Returns true if another peer, which others can dial, holds the state of this version.
  bool AnotherHolds(const std::string& peer, uint64_t version) const;
  // Returns the number of parties of the run: the sum over the workers of all connected peers, but
  // at least the setting `[run] peers`.
  uint64_t Parties() const;
  // Returns the samples in a pass over the workers' text; 0 if none has reported it, or each has
  // its own.
  uint64_t SamplesInPass(const v1::RunSpec& spec) const;
  // Appends to the reason why a run waits the reasons why workers of connected peers do not train,
  // and returns both. Peers with the same reason are listed together. An empty reason is returned
  // unchanged.
  std::string WithTroubles(const std::string& reason) const;
  bool AnybodyConnected() const;
  // Returns the parts of the member's status that this class knows. `notes` has the remarks of
  // Round::Notes.
  v1::PeerStatus StatusOf(const v1::Member& member,
                          const std::map<std::string, std::string>& notes) const;
  // Sets how far each peer's clock is from the wall clock, neglecting how long heartbeats travel.
  void ShowClocks(absl::Time now, absl::Time wall, v1::RunStatus* status) const;

 private:
  void NoteContributors(const v1::EntryHeader& header);
  absl::Status CheckLife(SessionId session, const v1::Hello& hello, RunOutput* out);
  void NoteTurn(absl::Time now, const v1::Hello& hello, const std::string& former, RunOutput* out);
  void SayTaken(const RosterMember& member, RunOutput* out) const;
  void NoteQuorum(const std::string& said, bool sealed, RunOutput* out) const;

  const RunSettings& settings_;
  Roster roster_;
  std::map<std::string, PeerInfo> infos_;
  uint64_t noted_ = 0;       // the newest entry whose contributors are known
  uint64_t noted_from_ = 0;  // the contributors of the entries after it, up to noted_, are known
  // The time since which each peer is waited for after the seal; never restarted.
  std::map<std::string, absl::Time> awaited_since_;
  std::set<std::string> given_up_;  // peers that are no longer waited for
  RosterNews news_;
  MemberReach reach_;
};

}  // namespace atolld
