// VirtualParties: lets a peer imitate many parties. It wraps the peer's worker, so that the peer
// trains, offers and exchanges like a single party.
//
// For each TrainSteps it draws the round's parties (party_draw.h; parties that are away are not
// drawn), lets the worker train them one after the other, in ascending order, and answers with one
// Boundary. In this Boundary, `update` is the weighted mean of the parties' updates (party_mean.h),
// `parties` is the number of parties and `weight` the sum of their weights; steps, tokens, samples
// and seconds are sums, and losses are weighted means. Code that needs the steps of one party
// (FedNova, control variates) divides them by `parties`. An evaluation on own data becomes an
// evaluation of at most kMostEvaluated parties, drawn anew for each version; their answers are
// merged into one. All other messages are passed on unchanged.
//
// Laws:
// - A party that trained on no data, or whose update is not finite, is left out. If no party is
//   left, the handed-over update is not finite, and the peer refuses it like any such update.
// - A Rebase in the middle of a round applies to the party that is being trained. Parties that have
//   finished keep their updates: a pseudo-gradient is the distance that a party moved from its own
//   base, and a rebase adds theta - base to both the parameters and the base, so it does not change
//   the pseudo-gradient. Later parties begin from the new theta.
// - A round exists only in memory. It is lost with the worker, and the next TrainSteps begins it
//   again with the same parties; a replaced TrainSteps drops it.
// - With control variates, TrainSteps.taken is true for a party if its newest update was in a mean
//   that an entry has taken. This is kept only in memory: after a restart of the daemon it is
//   false, which costs each party one step of its own variate.
// - With differential privacy each party's update is clipped before it is added, and `within`
//   counts the updates that were no longer than the clip. The peer adds the noise. If epsilon
//   counts on a draw (`[privacy] sampling` below 1), the draw uses the operating system's random
//   numbers and takes at most the share `sampling` of the available parties.
// - With error feedback and `keep` each party has a residual of its own (party_residuals.h). The
//   residual of the encoded mean belongs to the peer, as in any other peer.
// - Memory: one sum as long as the model (a few more vectors with a clip or with error feedback),
//   some bytes for each hosted party if `taken` is needed, and a number for each drawn party.
//
// Used on the loop thread; Hooks::run computes the sums off the loop.
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
    uint32_t first = 1;    // The number of the first party.
    uint32_t a_round = 0;  // The number of parties to draw in each round; 0 means all.
    bool keep = false;     // True if each party keeps its optimiser's state from round to round.
    std::string dir{};     // The folder of the parties' files, beside the replica.
    std::string peer{};    // The peer that hosts the parties.
  };
  struct Hooks {
    // Returns the memory that is shared with the worker; first called when the worker's first
    // update has come.
    std::function<const ParameterMemory*()> memory;
    // Runs `work` off the loop while no other job uses the update slot, then `done` on the loop.
    std::function<void(Task work, Task done)> run;
  };
  // Scales an update down so that it is no longer than `length`. Returns true if it was longer.
  // Called off the loop, one call at a time.
  using Clip = std::function<bool(absl::Span<float> update, double length)>;

  // `worker` must outlive this object.
  VirtualParties(Env env, Worker& worker, const Settings& settings, Hooks hooks);

  // Sets the function that returns whether the party with this number is available. If it is null,
  // all parties are always available.
  void SetThere(std::function<bool(uint32_t party)> is_there) { is_there_ = std::move(is_there); }
  // Sets how each party's update is clipped if the run has differential privacy. Without `clip`, no
  // update is handed over in such a run.
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
    size_t next = 0;  // The index of the party that trains or is next.
    PartyMean mean;
    v1::Boundary sums;  // The sums over the parties; each loss is multiplied by its party's weight.
    std::set<uint32_t> unused;  // The parties whose updates are not in the mean.
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
  void Add(const v1::Boundary& boundary, uint32_t party, const PartyOutcome& last);
  void OnAdded(const std::shared_ptr<Round>& round);
  void Finish();
  void HandOver();
  void Evaluate(const v1::EvaluateShare& order);
  void EvaluateNext();
  void OnEvaluated(const v1::WorkerEvaluated& evaluated);
  void Reset();  // Forgets all open requests, because the worker will not answer them.

  const Env env_;
  Worker& worker_;
  const Settings settings_;
  const Hooks hooks_;
  std::function<bool(uint32_t)> is_there_;
  Clip clip_;
  Events events_;
  v1::RunSpec spec_;

  std::shared_ptr<Round> round_;  // Nullptr if no round is under way.
  bool training_ = false;         // True while the worker trains a party.
  bool summing_ = false;  // True while the update slot is being read, for this or an earlier round.
  // The parties that begin without kept state, because that state led to values that are not
  // finite.
  std::set<uint32_t> broken_;
  // The outcomes of the parties' last updates, indexed by party - first; empty if they are not
  // needed.
  std::vector<PartyOutcome> last_;
  std::shared_ptr<PartyResiduals>
      residuals_;  // Nullptr without error feedback, or if no party keeps its state.
  std::vector<uint32_t> handed_over_;   // The parties in the last mean that was handed to the peer.
  v1::WorkerProgress newest_;           // The newest progress that was passed to the peer.
  std::deque<Evaluation> evaluations_;  // The evaluations; the first one is under way.
  // The total number of evaluated parties, which shows the peer that the worker is alive.
  uint64_t evaluated_ = 0;
  CallbackGuard guard_;
};

}  // namespace atolld
