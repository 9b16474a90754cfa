// VirtualParties: the worker of a peer that imitates many parties. It stands between the peer and
// its worker, so the peer trains, offers and exchanges as one that is a single party.
//
// For each TrainSteps it draws the round's parties (party_draw.h; those that are away are not
// drawn), has the worker train one after the other, in ascending order, and answers with one
// Boundary: `update` is their weighted mean (party_mean.h), `parties` and `weight` say how many and
// the sum of their weights; steps, tokens, samples and seconds are sums, losses weighted means.
// What goes by the steps of one (FedNova, control variates) divides them by the parties. An
// evaluation on own data becomes one of at most kMostEvaluated parties, drawn anew for each
// version, whose answers become one. Everything else goes through unchanged.
//
// Laws.
// - A party whose update is not finite, or that trained on nothing, is left out. Where nobody is
//   left, what is handed over is not finite, and the peer refuses it as it does any worker's.
// - A Rebase in the middle of a round goes to the party that trains. Those that are done keep their
//   updates: a pseudo-gradient is what a party moved by from its own base, and a rebase adds theta
//   - base to both, so all of them mean the same. Those to come begin from the new theta.
// - A round lives in memory alone. With the worker it is lost, and begun anew by the next
//   TrainSteps with the same parties; a replaced TrainSteps drops it.
// - With control variates a party is told `taken` if its newest update was in a mean that an entry
//   has taken. That is kept in memory: after a restart of the daemon nobody's was, which costs the
//   party one step of its own variate.
// - With differential privacy each party's update is clipped before it is added, and `within`
// counts
//   those that were no longer. The noise is the peer's to add.
// - With error feedback and `keep` each party has a residual of its own (party_residuals.h). What
//   the peer loses when it encodes the mean is the peer's, as that of any peer.
// - Memory: one sum as long as the model (a few vectors more with a clip or with error
//   feedback), one bit for each hosted party where `taken` is asked for, and a number for each
//   drawn one.
//
// Loop thread; the sums are made where Hooks::run runs them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"
#include "atoll/v1/worker.pb.h"
#include "daemon/env/env.h"
#include "daemon/peer/parameter_memory.h"
#include "daemon/peer/party_mean.h"
#include "daemon/peer/party_residuals.h"
#include "daemon/peer/worker.h"

namespace atolld {

class VirtualParties final : public Worker {
 public:
  static constexpr uint32_t kMostEvaluated = 32;

  struct Settings {
    uint32_t hosted = 0;
    uint32_t first = 1;    // number of the first one
    uint32_t a_round = 0;  // 0: all
    bool keep = false;     // each keeps its optimiser's state from round to round
    std::string dir{};     // of files of the parties; beside the replica
    std::string peer{};    // whose parties they are
  };
  struct Hooks {
    // What the worker shares; asked for when its first update has come.
    std::function<const ParameterMemory*()> memory;
    // Runs `work` off the loop while nobody else reads or writes the update slot, then `done`.
    std::function<void(Task work, Task done)> run;
  };
  // Scales an update down so that it is no longer than `length`; true: it was longer. Off the loop,
  // one at a time.
  using Clip = std::function<bool(absl::Span<float> update, double length)>;

  // `worker` outlives it.
  VirtualParties(Env env, Worker& worker, const Settings& settings, Hooks hooks);

  // Whether a party is there, by its number; null: all are, always.
  void SetThere(std::function<bool(uint32_t party)> is_there) { is_there_ = std::move(is_there); }
  // How each party's update is clipped where the run has differential privacy. Without it no update
  // is handed over there.
  void SetClip(Clip clip) { clip_ = std::move(clip); }

  void SetPlaces(const RunFilePlaces& places) override { worker_.SetPlaces(places); }
  void Start(const v1::RunSpec& spec, Events events) override;
  void Renew(const v1::RunSpec& spec, const std::string& misfit) override;
  void Send(const v1::DaemonMessage& message) override;
  void Accept() override { worker_.Accept(); }
  void Restart(const absl::Status& why) override { worker_.Restart(why); }
  void Pause() override;
  void Resume() override { worker_.Resume(); }
  void SetThreads(uint32_t threads) override { worker_.SetThreads(threads); }
  void Stop(Task done) override;
  bool trains() const override { return worker_.trains(); }

 private:
  struct Round {
    v1::TrainSteps order;
    std::vector<uint32_t> parties;
    size_t next = 0;  // of them: the one that trains, or is to
    PartyMean mean;
    v1::Boundary sums;          // losses times weight
    std::set<uint32_t> unused;  // whose updates are not in the mean
  };
  struct Evaluation {
    v1::EvaluateShare order;
    std::vector<uint32_t> parties;
    v1::WorkerEvaluated sums;
    size_t next = 0;
  };

  void Begin(const v1::TrainSteps& order);
  void Draw();
  void TrainNext();
  void OnMessage(const v1::WorkerMessage& message);
  void OnProgress(const v1::WorkerProgress& progress);
  void OnBoundary(const v1::Boundary& boundary);
  uint32_t OnWire(uint32_t party) const { return party - settings_.first + 1; }
  void Add(const v1::Boundary& boundary, uint32_t party, bool taken);
  void OnAdded(const std::shared_ptr<Round>& round);
  void Finish();
  void HandOver();
  void Evaluate(const v1::EvaluateShare& order);
  void EvaluateNext();
  void OnEvaluated(const v1::WorkerEvaluated& evaluated);
  void Reset();  // what the worker was asked is not answered any more

  const Env env_;
  Worker& worker_;
  const Settings settings_;
  const Hooks hooks_;
  std::function<bool(uint32_t)> is_there_;
  Clip clip_;
  Events events_;
  v1::RunSpec spec_;

  std::shared_ptr<Round> round_;  // nullptr: none
  bool training_ = false;         // the worker trains its next party
  bool summing_ = false;          // the update slot is read or written for a round, this or another
  std::set<uint32_t> broken_;     // whose kept state led to what is not finite: begun anew
  std::vector<bool> taken_;       // by party - first; empty where nobody asks
  std::shared_ptr<PartyResiduals>
      residuals_;                       // nullptr: without error feedback, or nothing is kept
  std::vector<uint32_t> handed_over_;   // whose mean the peer was handed last
  v1::WorkerProgress newest_;           // told to the peer
  std::deque<Evaluation> evaluations_;  // the first is under way
  uint64_t evaluated_ = 0;              // parties, counted on and on: a sign of life
  CallbackGuard guard_;
};

}  // namespace atolld
