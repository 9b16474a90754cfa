// SimulatedPeers: a Run with scripted peers, for tests of the decisions of Run.
//
// Messages are delivered at once. The data that the run makes durable is kept, so that a restart
// continues from it. The test controls the time.
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

  // These functions make events for the run.
  void Join(const std::string& peer, const v1::Hello* hello = nullptr);
  v1::Hello MakeHello(const std::string& peer) const;
  void WorkerReady(const std::string& peer);
  void JoinDialingOut(const std::string& peer);  // The peer cannot be dialled, and its worker is
                                                 // ready.
  void JoinAndWork(const std::string& peer);
  void Say(const std::string& peer, const v1::PeerMessage& message);
  void InitialState(const std::string& peer);
  void Synced(const std::string& peer, uint64_t version);
  void Ready(const std::string& peer,
             uint32_t age = 0);  // For the newest Train, or the current round.
  void Vote(const std::string& peer, char payload = 'p');
  void Evaluate(const std::string& peer);  // Answers all evaluations that the peer was asked for.
  void Report(const std::string& peer, char digest = 'z');
  void Leave(const std::string& peer);
  void Break(const std::string& peer);
  void Refused(const std::string& peer);
  // Tells the run the result of dialling the peer at this address.
  void Probed(const std::string& peer, ProbeResult result, const std::string& address = "");
  // Sends heartbeats from all peers, in steps of a second.
  void Tick(absl::Duration passed = absl::ZeroDuration());
  void Die(const std::string& peer);     // Breaks the peer's session, and makes its address refuse.
  void Restart();                        // restarts the coordinator
  void Restart(const StoredRun& older);  // restarts it with a store that was restored from a copy
  absl::Status Order(RunOrder::Verb verb, const std::string& peer = "",
                     const std::string& reason = "");

  // Returns the Hello of a peer that comes back with its data. `header` is its newest header, or
  // null for version 0.
  v1::Hello Returning(const std::string& peer, const v1::EntryHeader* header) const;
  // Lets the same processes come back after a restart of the coordinator, with the samples that
  // they trained on.
  void ComeBack(const std::vector<std::string>& names);
  // Answers the last SendHeaders to the peer with the part of `history` from there on.
  void TellHeaders(const std::string& peer, const std::vector<v1::EntryHeader>& history,
                   size_t most = 256);

  // Called when the peer's update is settled. The training ahead becomes the peer's training.
  void TakeAhead(const std::string& peer);

  // These functions play whole parts of a run.
  // Lets these peers join, make version 0, evaluate it and train.
  void Begin(const std::vector<std::string>& names);
  void Commit(const std::vector<std::string>& names);  // Lets these peers become ready, vote and
                                                       // commit.

  // Returns the last message of a kind to a peer; null if there was none since Clear.
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
  // Returns the peer's plan or, if it is a brief one, the whole plan that others were sent.
  const v1::Plan* WholePlan(const std::string& peer) const;
  const v1::Commit* Committed(const std::string& peer) const;
  const v1::SendHeaders* Asked(const std::string& peer) const;
  void Clear() {
    inbox.clear();
    events.clear();
    ended.clear();
    probes.clear();
  }

  bool Said(const std::string& text) const;  // true if some event contains this text
  std::string phase() const { return run->Status(now).phase(); }
  std::string reason() const { return run->Status(now).reason(); }
  std::string StateOf(const std::string& peer) const;

  absl::Time now = absl::UnixEpoch();
  RunSettings settings;
  StoredRun stored;              // with all headers; a restart reads those after the checkpoint
  v1::Genesis recorded_genesis;  // the genesis, no matter which store has recorded it
  std::unique_ptr<Run> run;
  std::map<std::string, SessionId> sessions;
  std::map<std::string, std::vector<v1::CoordinatorMessage>> inbox;
  std::map<std::string, std::vector<v1::SampleRange>>
      samples;                             // the samples that a peer would name in its Hello
  std::map<std::string, uint64_t> trains;  // the number of the newest Train, which a Ready answers
  // For peers that train ahead: the Train of that training. Its samples and number become the
  // peer's once an entry names the peer.
  std::map<std::string, v1::Train> ahead;
  std::map<std::string, uint64_t> missed;       // the number of entries that the update in its next
                                                // Ready has missed
  std::map<std::string, v1::Roster> rosters;    // the roster as each peer was told it
  std::map<std::string, double> train_seconds;  // the training time in a peer's next Ready
  std::map<std::string, double> waited_seconds;  // the waiting time in a peer's next Ready
  std::map<std::string, double> losses;          // the loss in a peer's next Ready; 2.5 by default
  std::map<std::string, double> norms;           // the norm of the update in a peer's next Ready; 1
                                                 // by default
  std::set<std::string> says_slow;               // peers that claim the codec for slow lines,
                                                 // whatever their Train says
  std::set<std::string> training;  // with private data: peers that would say in their Hello that
                                   // they train
  // The losses that a peer finds on its own data. A peer without losses holds no data out.
  std::map<std::string, std::vector<double>> own_losses;
  uint64_t held_out = 10;  // the tokens of a share of the evaluation set; each token has a loss of
                           // 3
  // The squared mean in a peer's next Vote. A peer that is not listed reports none.
  std::map<std::string, double> squared_means;
  std::optional<v1::Arrivals> arrivals;    // the arrivals that the next Votes report
  std::map<std::string, SigningKey> keys;  // the keys of peers that sign
  std::vector<std::string> events;
  std::vector<std::string> evicted;  // the peers that the run itself has evicted
  std::map<SessionId, absl::Status> ended;
  std::vector<std::string> probes;
  std::string notice;     // the notice of the last order
  int leases_stored = 0;  // how often leases were stored
  bool finished = false;

 private:
  void Take(RunOutput output);
  void Store(const RunUpdate& update);
  SessionId last_session_ = 0;
};

std::vector<std::string> ContributorsOf(const v1::EntryHeader& header);

}  // namespace atolld
