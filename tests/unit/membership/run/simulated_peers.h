// SimulatedPeers: a Run with scripted peers around it, for tests of its decisions.
//
// Messages are delivered at once; what the run makes durable is kept, so that a restart goes on
// from it. Time is the test's own.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "membership/history/signing_key.h"
#include "membership/run/run.h"

namespace atolld {

class SimulatedPeers {
 public:
  explicit SimulatedPeers(uint32_t peers, uint32_t quorum, uint64_t rounds = 4,
                          uint32_t every_rounds = 0);

  // Events of the outside.
  void Join(const std::string& peer, const v1::Hello* hello = nullptr);
  v1::Hello MakeHello(const std::string& peer) const;
  void WorkerReady(const std::string& peer);
  void JoinDialingOut(const std::string& peer);  // nobody can dial it; its worker is ready
  void JoinAndWork(const std::string& peer);
  void Say(const std::string& peer, const v1::PeerMessage& message);
  void InitialState(const std::string& peer);
  void Synced(const std::string& peer, uint64_t version);
  void Ready(const std::string& peer,
             uint32_t age = 0);  // for the newest Train, or the current round
  void Vote(const std::string& peer, char payload = 'p');
  void Evaluate(const std::string& peer);  // answers all that it was asked
  void Report(const std::string& peer, char digest = 'z');
  void Leave(const std::string& peer);
  void Break(const std::string& peer);
  void Refused(const std::string& peer);
  // What came of dialling it, at this address.
  void Probed(const std::string& peer, ProbeResult result, const std::string& address = "");
  // heartbeats from all, in steps of a second
  void Tick(absl::Duration passed = absl::ZeroDuration());
  void Die(const std::string& peer);     // its session breaks and its address refuses
  void Restart();                        // of the coordinator
  void Restart(const StoredRun& older);  // with a store that was restored from a copy
  absl::Status Order(RunOrder::Verb verb, const std::string& peer = "",
                     const std::string& reason = "");

  // A peer that comes back with what it held: `header` is its newest, nullptr: version 0.
  v1::Hello Returning(const std::string& peer, const v1::EntryHeader* header) const;
  // The same processes, with what they trained on, after a restart of the coordinator.
  void ComeBack(const std::vector<std::string>& names);
  // Answers the SendHeaders that it was sent last, with what there is of `history` from there on.
  void TellHeaders(const std::string& peer, const std::vector<v1::EntryHeader>& history,
                   size_t most = 256);

  // The peer's update is settled: what it trains ahead is its training.
  void TakeAhead(const std::string& peer);

  // Whole pieces of a run.
  void Begin(const std::vector<std::string>& names);   // joined, version 0, evaluated, training
  void Commit(const std::vector<std::string>& names);  // ready, voted, committed

  // What a peer was sent last of a kind; nullptr: nothing since Clear.
  template <typename Get>
  const v1::CoordinatorMessage* Last(const std::string& peer, Get has) const {
    const auto it = inbox.find(peer);
    if (it == inbox.end()) return nullptr;
    for (auto message = it->second.rbegin(); message != it->second.rend(); ++message) {
      if (((*message).*has)()) return &*message;
    }
    return nullptr;
  }
  const v1::Train* Train(const std::string& peer) const;
  const v1::Plan* Plan(const std::string& peer) const;
  const v1::Plan* WholePlan(const std::string& peer) const;  // where it was told in brief, others'
  const v1::Commit* Committed(const std::string& peer) const;
  const v1::SendHeaders* Asked(const std::string& peer) const;
  void Clear() {
    inbox.clear();
    events.clear();
    ended.clear();
    probes.clear();
  }

  bool Said(const std::string& text) const;  // some event contains it
  std::string phase() const { return run->Status(now).phase(); }
  std::string reason() const { return run->Status(now).reason(); }
  std::string StateOf(const std::string& peer) const;

  absl::Time now = absl::UnixEpoch();
  RunSettings settings;
  StoredRun stored;              // with all headers; a restart reads those after the checkpoint
  v1::Genesis recorded_genesis;  // whatever store it was in
  std::unique_ptr<Run> run;
  std::map<std::string, SessionId> sessions;
  std::map<std::string, std::vector<v1::CoordinatorMessage>> inbox;
  std::map<std::string, std::vector<v1::SampleRange>>
      samples;                             // that a peer would name in its Hello
  std::map<std::string, uint64_t> trains;  // number of the newest Train, which a Ready answers
  // Of those who train ahead: samples and number of that Train, which are the peer's once an entry
  // names it.
  std::map<std::string, v1::Train> ahead;
  std::map<std::string, uint64_t> missed;        // entries that its next Ready has not taken in
  std::map<std::string, v1::Roster> rosters;     // as each has been told it
  std::map<std::string, double> train_seconds;   // that a peer's next Ready names
  std::map<std::string, double> waited_seconds;  // likewise
  std::map<std::string, double> losses;          // as well; none: 2.5
  std::map<std::string, double> norms;           // of its update, as well
  std::set<std::string> says_slow;               // whatever its Train has said of its codec
  std::set<std::string> training;                // with private data: would say so in its Hello
  std::map<std::string, std::vector<double>> own_losses;  // that it finds; none: it holds none out
  std::map<std::string, double> squared_means;  // that its next Vote names; none: it tells none
  std::optional<v1::Arrivals> arrivals;         // that the next Votes tell of
  std::map<std::string, SigningKey> keys;       // of peers that sign
  std::vector<std::string> events;
  std::vector<std::string> evicted;  // by the run itself
  std::map<SessionId, absl::Status> ended;
  std::vector<std::string> probes;
  std::string notice;     // of the last order
  int leases_stored = 0;  // times
  bool finished = false;

 private:
  void Take(RunOutput output);
  void Store(const RunUpdate& update);
  SessionId last_session_ = 0;
};

std::vector<std::string> ContributorsOf(const v1::EntryHeader& header);

}  // namespace atolld
