// PlanChoice: which plan an exchange gets - flat or by region, equal shards or shards by rates -
// and how long it is predicted to take.
//
// Law: what was chosen stays until another plan is predicted to save a tenth of the exchange and 50
// ms at least, on the same estimates: so noise moves nothing, and every change has a reason to
// tell. A change whose exchanges do not bear the prediction out is taken back (change_judge.h); no
// other one is made, and nothing tried, until that is known. How many reduce is bounded by what
// streams cost (plan_bounds.h).
//
// Three plans are tried for one exchange, whatever is predicted. By region, once: while everybody
// waits for a link between regions, nobody sees what the lines within one carry, and a plan that
// rests on them would never be predicted to be faster. And, once for each peer that had room while
// others were waited for, one in which those reduce more and these less: nobody sees either what a
// line carries that waits for another. And one with twice as many reducers where the lines seem to
// be slow: but what was seen of lines is also what busy processors have left of them, and these get
// slower with more streams. So no prediction decides that. A trial stays if it took a tenth less
// than the exchange before it. Pure; one thread.
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

// As exchange.plan says: which of the two, or whichever is faster.
enum class PlanKind { kFlat, kRegions, kAuto };

struct ChosenPlan {
  PlanShape shape = PlanShape::kFlat;
  std::vector<double> bandwidths;                // one a peer, any unit; 0: it reduces nothing
  Grouping grouping;                             // averages first, where there are many
  std::optional<ExchangePrediction> prediction;  // none without a model
  std::string change;                            // what it was changed to, and why; mostly empty
};

class PlanChoice {
 public:
  explicit PlanChoice(PlanKind kind);

  // For the peers of `links` in their order, or, where that is null, for those of `reduces`.
  ChosenPlan Choose(const LinkModel* links, const std::vector<bool>& reduces,
                    const EncodedSize& size, uint32_t chunks);
  // All that has arrived in the exchange that was chosen last: of contributors' own chunks, and of
  // means. Sizes are predicted by it from now on: frames have headers, and what zstd or topk make
  // of the values is known only then.
  void NoteArrived(double update_bytes, double mean_bytes);
  // That exchange took so long, by whatever plan it ended. A trial that ended by another than its
  // own (`disturbed`), and was no faster, has shown nothing: it may be made again.
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
  // The rates of a trial, in which those that had room reduce more; or nothing.
  std::vector<double> AskingMore(const LinkModel& links, const std::vector<bool>& reduces,
                                 const Candidate& kept) const;
  // What is asked for: the peers, and how many of them may reduce.
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
    std::map<std::string, double> rates;  // by which shards are divided; empty: all alike
  };
  struct Trial {
    Kept plan;
    std::set<std::string> asked_for_more;
    size_t wider = 0;  // what wider_ is, if it stays
  };
  const PlanKind kind_;
  Kept kept_;                   // what the next choice is compared with
  Kept former_;                 // what it was before the last change
  ChangeJudge judge_;           // of that
  std::string taken_back_;      // what the next choice has to tell of it
  std::optional<Trial> trial_;  // the exchange that was chosen last
  bool regions_tried_;
  size_t wider_ = 1;          // times as many reducers as streams are worth
  bool wider_tried_ = false;  // and more were no faster
  std::set<std::string> asked_for_more_;
  double last_seconds_ = 0;  // of the exchange before
  Share shares_;             // of the vector, that arrive somewhere in the last plan
  // Of the vector in either form, as measured; 0: not yet.
  double update_bytes_ = 0;
  double mean_bytes_ = 0;
  double slow_part_ = 1;  // of an update's bytes, that one over a slow line has
};

}  // namespace atolld
