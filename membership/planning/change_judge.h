// ChangeJudge: whether a change of plan has paid, by what exchanges took before it and after it.
//
// A prediction rests on what was seen of lines, and what a line carries that nothing was asked of
// is not seen: of equal lines those look faster that had a snapshot to give. So a change is on
// trial for two exchanges. Law: it is taken back if neither of them was faster than the fastest of
// the last three before it, and both took longer than predicted by a quarter; where lines have got
// slower meanwhile the prediction knows, and the change stays. A shape that was taken back is
// refuted, with all others whose shards follow rates if its own do, and is not chosen by prediction
// until the lines are others: three exchanges in a row that took a quarter more or less than those
// before the change did, or a line that shows half as much again as any moment before has shown of
// it. An exchange that ended by another plan than its first tells nothing. Pure; one thread.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "membership/planning/link_model.h"
#include "membership/planning/round_model.h"

namespace atolld {

class ChangeJudge {
 public:
  enum class Verdict { kNone, kPaid, kTakenBack };

  // The exchanges from now on are by another plan, of this shape, which a prediction has chosen. It
  // is on trial if it is known what those before took.
  void Begin(PlanShape shape, double predicted_seconds);
  // The same for another reason: what is measured from now on is `seconds` at first.
  void BeginWithout(double seconds);

  bool judging() const { return shape_.has_value(); }
  bool Refuted(PlanShape shape) const { return refuted_.count(shape) != 0; }

  // An exchange of the plan took so long. kTakenBack: the caller goes back to the plan before;
  // Reason() says why.
  Verdict Note(double seconds, bool disturbed);
  const std::string& Reason() const { return reason_; }

  // The lines as they seem to be.
  void SeeLines(const LinkModel& links);

 private:
  void Refute();
  bool TimesHaveChanged() const;

  std::deque<double> recent_;  // seconds of the newest exchanges of the plan
  // Of the change on trial:
  std::optional<PlanShape> shape_;  // none: no change is
  double predicted_ = 0;
  double before_ = 0;
  size_t seen_exchanges_ = 0;  // of it, disturbed ones too

  std::set<PlanShape> refuted_;
  double usual_ = 0;  // what exchanges took when something was refuted; 0: another plan's
  bool lines_known_ = false;
  std::map<std::string, double> most_up_;  // by peer: the most that was seen since a refutation
  std::map<std::string, double> most_down_;
  std::string reason_;
};

}  // namespace atolld
