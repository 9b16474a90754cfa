// ScriptedPeer: a peer without a replica and without a worker. Over the simulated network it
// answers every message at once, as a test's run needs it, and votes for a payload that it makes
// from the plan.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "atoll/v1/membership.pb.h"
#include "daemon/env/env.h"
#include "membership/history/signing_key.h"

namespace atolld {

class ScriptedPeer {
 public:
  ScriptedPeer(Env env, std::string id, std::string coordinator);

  // The messages that it received, over all its sessions.
  std::vector<v1::CoordinatorMessage> heard;
  v1::Roster roster;  // the newest roster; it is not in `heard`
  std::vector<absl::Status> closed;
  uint64_t version = 0;
  bool holds_state = false;
  bool sealed = false;
  bool drained = false;
  bool trains = true;                    // if false, it accepts a Train but never becomes ready
  std::vector<v1::EntryHeader> headers;  // the headers that the coordinator has told it, from the
                                         // first on
  std::vector<std::string> waits;  // the reasons for which the run has waited, one for each change

  // Makes it claim from now on that it holds one more version, with a header that it has signed
  // itself.
  void Forge(const SigningKey& key);

 private:
  void Dial();
  void Beat(const Call* call);  // repeats heartbeats until another call has replaced this one
  void Say(const v1::PeerMessage& message);
  void OnMessage(const v1::CoordinatorMessage& message);
  void OnWelcome(const v1::Welcome& welcome);
  void OnTrain(const v1::Train& train);
  void OnPlan(const v1::Plan& plan);
  void SayReady();
  void SayHeaders(const v1::SendHeaders& asked);
  void SaySynced();

  Env env_;
  const std::string id_;
  const std::string coordinator_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Call> call_;
  std::vector<std::unique_ptr<Call>> accepted_;
  std::optional<v1::Genesis> genesis_;
  std::string header_digest_;
  uint64_t epoch_ = 0;
  std::string epoch_proof_;
  std::vector<v1::SampleRange> samples_;
  bool ready_ = false;
  CallbackGuard guard_;
};

}  // namespace atolld
