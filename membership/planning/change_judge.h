// ChangeJudge: decides whether a change of plan has paid off, by comparing how long exchanges took
// before and after it.
//
// A prediction uses the rates at which lines were seen to carry data, and a line that was never
// fully loaded could carry more. For example, of two equal lines the one that happened to send a
// snapshot looks faster. A change of plan is therefore on trial for two exchanges. Law: it is taken
// back if neither of them was faster than the fastest of the last three exchanges before it, and
// both took a quarter longer than predicted. If lines have become slower meanwhile, the prediction
// takes that into account, so the change stays.
//
// A shape that was taken back is refuted. If its shards are sized by rates, all shapes with such
// shards are refuted with it. A refuted shape is not chosen by prediction until the lines have
// changed: until three exchanges in a row took a quarter more or less than those before the change,
// or until a line carries half as much again as it was ever seen to carry before. An exchange that
// ended with another plan than it began with proves nothing. Pure. Used by one thread.
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

  // Called when the exchanges from now on use another plan, which has this shape and was chosen by
  // a prediction. The change is on trial if earlier exchanges have been measured.
  void Begin(PlanShape shape, double predicted_seconds);
  // Called when the plan changes for a reason other than a prediction. Exchanges are assumed to
  // last `seconds` until they are measured.
  void BeginWithout(double seconds);

  bool judging() const { return shape_.has_value(); }
  bool Refuted(PlanShape shape) const { return refuted_.count(shape) != 0; }

  // Called when an exchange that used the plan took `seconds`. If the result is kTakenBack, the
  // caller returns to the previous plan, and Reason() says why.
  Verdict Note(double seconds, bool disturbed);
  const std::string& Reason() const { return reason_; }

  // Called with the current estimates of the lines, so that a change of the lines ends a
  // refutation.
  void SeeLines(const LinkModel& links);

 private:
  void Refute();
  bool TimesHaveChanged() const;

  std::deque<double> recent_;  // the seconds that the newest exchanges with this plan took
  // About the change on trial:
  std::optional<PlanShape> shape_;  // nullopt if no change is on trial
  double predicted_ = 0;
  double before_ = 0;
  size_t seen_exchanges_ = 0;  // the exchanges since the change, including disturbed ones

  std::set<PlanShape> refuted_;
  // The seconds that exchanges took when a shape was refuted; 0 if the plan has changed since.
  double usual_ = 0;
  bool lines_known_ = false;
  // The greatest rate that each peer's line was seen to carry since a refutation.
  std::map<std::string, double> most_up_;
  std::map<std::string, double> most_down_;
  std::string reason_;
};

}  // namespace atolld
