// SimulatedPeers: a Run with scripted peers around it, for tests of its decisions.
//
// Messages are delivered at once. What the run makes durable is kept, so that a restart continues
// from it. The test controls the time.
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

  // Events from outside.
  void Join(const std::string& peer, const v1::Hello* hello = nullptr);
  v1::Hello MakeHello(const std::string& peer) const;
  void WorkerReady(const std::string& peer);
  void JoinDialingOut(const std::string& peer);  // It cannot be dialled; its worker is ready.
  void JoinAndWork(const std::string& peer);
  void Say(const std::string& peer, const v1::PeerMessage& message);
  void InitialState(const std::string& peer);
  void Synced(const std::string& peer, uint64_t version);
  void Ready(const std::string& peer,
             uint32_t age = 0);  // For the newest Train, or the current round.
  void Vote(const std::string& peer, char payload = 'p');
  void Evaluate(const std::string& peer);  // Answers all that it was asked.
  void Report(const std::string& peer, char digest = 'z');
  void Leave(const std::string& peer);
  void Break(const std::string& peer);
  void Refused(const std::string& peer);
  // The result of dialling it at this address.
  void Probed(const std::string& peer, ProbeResult result, const std::string& address = "");
  // Sends heartbeats from all peers, in steps of a second.
  void Tick(absl::Duration passed = absl::ZeroDuration());
  void Die(const std::string& peer);     // Its session breaks and its address refuses.
  void Restart();                        // Restarts the coordinator.
  void Restart(const StoredRun& older);  // With a store that was restored from a copy.
  absl::Status Order(RunOrder::Verb verb, const std::string& peer = "",
                     const std::string& reason = "");

  // Returns the Hello of a peer that returns with what it held; `header` is its newest, or null for
  // version 0.
  v1::Hello Returning(const std::string& peer, const v1::EntryHeader* header) const;
  // The same processes return, with what they trained on, after a restart of the coordinator.
  void ComeBack(const std::vector<std::string>& names);
  // Answers the last SendHeaders to the peer with the part of `history` from there on.
  void TellHeaders(const std::string& peer, const std::vector<v1::EntryHeader>& history,
                   size_t most = 256);

  // The peer's update is settled: what it trained ahead becomes its training.
  void TakeAhead(const std::string& peer);

  // Whole parts of a run.
  // They join, make version 0, evaluate it and train.
  void Begin(const std::vector<std::string>& names);
  void Commit(const std::vector<std::string>& names);  // They are ready, vote and commit.

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
  // If the peer was told the plan in brief, the one that others were told.
  const v1::Plan* WholePlan(const std::string& peer) const;
  const v1::Commit* Committed(const std::string& peer) const;
  const v1::SendHeaders* Asked(const std::string& peer) const;
  void Clear() {
    inbox.clear();
    events.clear();
    ended.clear();
    probes.clear();
  }

  bool Said(const std::string& text) const;  // True if some event contains it.
  std::string phase() const { return run->Status(now).phase(); }
  std::string reason() const { return run->Status(now).reason(); }
  std::string StateOf(const std::string& peer) const;

  absl::Time now = absl::UnixEpoch();
  RunSettings settings;
  StoredRun stored;              // With all headers; a restart reads those after the checkpoint.
  v1::Genesis recorded_genesis;  // Whichever store it was in.
  std::unique_ptr<Run> run;
  std::map<std::string, SessionId> sessions;
  std::map<std::string, std::vector<v1::CoordinatorMessage>> inbox;
  std::map<std::string, std::vector<v1::SampleRange>>
      samples;                             // Those that a peer would name in its Hello.
  std::map<std::string, uint64_t> trains;  // The number of the newest Train, which a Ready answers.
  // For peers that train ahead: samples and number of that Train, which become the peer's once an
  // entry names it.
  std::map<std::string, v1::Train> ahead;
  std::map<std::string, uint64_t> missed;       // The entries that its next Ready has not taken in.
  std::map<std::string, v1::Roster> rosters;    // As each peer has been told it.
  std::map<std::string, double> train_seconds;  // Those in a peer's next Ready.
  std::map<std::string, double> waited_seconds;  // Likewise.
  std::map<std::string, double> losses;          // Likewise; 2.5 by default.
  std::map<std::string, double> norms;           // Likewise, of its update; 1 by default.
  std::set<std::string> says_slow;               // Whatever its Train has said of its codec.
  std::set<std::string> training;  // With private data: a peer that would say so in its Hello.
  // Those that it finds; a peer without any holds no data out.
  std::map<std::string, std::vector<double>> own_losses;
  uint64_t held_out = 10;  // The tokens of a share of the evaluation set; each has a loss of 3.
  // In its next Vote; a peer without one reports none.
  std::map<std::string, double> squared_means;
  std::optional<v1::Arrivals> arrivals;    // Told in the next Votes.
  std::map<std::string, SigningKey> keys;  // The keys of peers that sign.
  std::vector<std::string> events;
  std::vector<std::string> evicted;  // By the run itself.
  std::map<SessionId, absl::Status> ended;
  std::vector<std::string> probes;
  std::string notice;     // The notice of the last order.
  int leases_stored = 0;  // How many times.
  bool finished = false;

 private:
  void Take(RunOutput output);
  void Store(const RunUpdate& update);
  SessionId last_session_ = 0;
};

std::vector<std::string> ContributorsOf(const v1::EntryHeader& header);

}  // namespace atolld
