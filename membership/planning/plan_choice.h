// PlanChoice: chooses the plan of an exchange - flat or by region, with equal shards or shards by
// rates - and predicts how long the exchange takes.
//
// Law: the chosen plan stays until another is predicted, from the same estimates, to save a tenth
// of the exchange and at least 50 ms. Noise therefore changes nothing, and every change has a
// reason that can be reported. A change is taken back if its exchanges do not confirm the
// prediction (see change_judge.h). Until that is known no other change is made and no other plan is
// tried. The cost of streams bounds the number of reducers (plan_bounds.h).
//
// Three kinds of plan are tried for one exchange even if they are not predicted to be faster. The
// first is a plan by region, which is tried once: while all peers wait for a link between regions,
// no peer sees how much the lines within a region can carry, so such a plan would never be
// predicted to be faster. The second is a plan in which the peers with spare capacity reduce more
// and the others less. It is tried once for each peer that had room while others were waited for,
// because a line that waits for another does not show how much it can carry. The third is a plan
// with twice as many reducers, which is tried if the lines seem slow: busy processors may be the
// real reason, and more streams would make them slower still, so no prediction can decide this. The
// plan of a trial is kept if its exchange took a tenth less than the one before it. Pure. Used by
// one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "membership/planning/change_judge.h"
#include "membership/planning/link_model.h"
#include "membership/planning/plan_bounds.h"
#include "membership/planning/reduction_plan.h"
#include "membership/planning/round_model.h"

namespace atolld {

// The setting exchange.plan: one of the two shapes, or kAuto for the faster one.
enum class PlanKind { kFlat, kRegions, kAuto };

struct ChosenPlan {
  PlanShape shape = PlanShape::kFlat;
  // The bandwidth of each peer, in any unit; 0 if the peer reduces nothing.
  std::vector<double> bandwidths;
  Grouping grouping;  // the groups that average first; none unless there are many peers
  std::optional<ExchangePrediction> prediction;  // nullopt if the network is not known
  // The change that was made and its reason; empty in most exchanges.
  std::string change;
};

class PlanChoice {
 public:
  explicit PlanChoice(PlanKind kind);

  // Chooses a plan for the peers of `links`, in their order. If `links` is null, the peers are
  // those of `reduces`, which is true for each peer that may reduce.
  ChosenPlan Choose(const LinkModel* links, const std::vector<bool>& reduces,
                    const EncodedSize& size, uint32_t chunks);
  // Called after the exchange that was chosen last, with all bytes that arrived in contributors'
  // own chunks and in means. Later sizes are predicted from these numbers, because they include the
  // headers of frames and show how small zstd or topk have made the data.
  void NoteArrived(double update_bytes, double mean_bytes);
  // Called when that exchange has ended after `seconds`. `disturbed` is true if it ended with
  // another plan than it began with. A disturbed trial that was no faster proves nothing and may be
  // repeated.
  void NoteSeconds(double seconds, bool disturbed = false);

 private:
  struct Candidate {
    PlanShape shape;
    std::vector<double> bandwidths;
    ExchangeTraffic traffic;
    ExchangePrediction prediction;
  };
  std::vector<double> KeptRates(const LinkModel* links, const std::vector<bool>& reduces,
                                size_t most) const;
  bool WorthATrial(const LinkModel& links, const std::vector<bool>& reduces,
                   double kept_seconds) const;
  // Returns the rates of a trial in which the peers that had room reduce more, or an empty vector
  // if there is no such trial to make.
  std::vector<double> AskingMore(const LinkModel& links, const std::vector<bool>& reduces,
                                 const Candidate& kept) const;
  // The peers of an exchange, its size, and how many of the peers may reduce.
  struct Question {
    const LinkModel* links;
    const std::vector<bool>& reduces;
    EncodedSize sent;
    uint32_t chunks;
    PlanBounds bounds;
    size_t most;
  };
  static ModelAssumptions Assumed();
  static Candidate Make(const Question& question, PlanShape shape, std::vector<double> bandwidths);
  static bool Saves(const Candidate& before, const Candidate& after);
  Candidate Best(const Question& question, const Candidate& kept) const;
  void NoteTrial(double seconds, bool faster, bool disturbed);
  std::optional<ChosenPlan> ChooseTrial(const Question& question, const Candidate& kept,
                                        bool change);
  ChosenPlan Try(const Question& question, PlanShape shape, std::vector<double> bandwidths,
                 std::string why);

  void EndTrial();

  struct Kept {
    PlanShape shape;
    // The rates by which shards are divided; empty if all are equal.
    std::map<std::string, double> rates;
  };
  struct Trial {
    Kept plan;
    std::set<std::string> asked_for_more;
    size_t wider = 0;  // the value of wider_ if the trial stays
  };
  const PlanKind kind_;
  Kept kept_;          // the plan with which the next choice is compared
  Kept former_;        // the plan before the last change
  ChangeJudge judge_;  // judges the last change
  // What the next choice must report about a change that was taken back; empty if nothing.
  std::string taken_back_;
  std::optional<Trial> trial_;  // the trial of the exchange that was chosen last
  bool regions_tried_;
  // The factor by which the number of reducers exceeds what the cost of streams suggests.
  size_t wider_ = 1;
  bool wider_tried_ = false;  // true if a trial with more reducers was no faster
  std::set<std::string> asked_for_more_;
  double last_seconds_ = 0;  // the time of the previous exchange
  // The shares of the vector that arrive at all peers together under the last plan.
  Share shares_;
  // The measured bytes of the whole vector in either form; 0 if not yet measured.
  double update_bytes_ = 0;
  double mean_bytes_ = 0;
  // The size of an update in slow_codec, as a fraction of the size of any other update.
  double slow_part_ = 1;
};

}  // namespace atolld
