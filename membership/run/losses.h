// Helpers for the losses of a run: whether a loss is known, its unit, and its text for people.
//
// Law: if nothing was evaluated there is no loss, which is not the same as a loss of 0. A loss that
// is NaN is reported as NaN. Code that shows or compares a validation loss must use EvaluatedLoss.
// Pure. May be called from any thread.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "atoll/v1/admin.pb.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

// Returns the record's loss, which may be NaN, or nullopt if nothing was evaluated. Earlier
// releases recorded a loss of 0 over 0 tokens in that case.
std::optional<double> EvaluatedLoss(const v1::EvaluationRecord& record);

// Returns the unit of a run's losses: "nats a byte" if its tokens are bytes, otherwise "nats a
// token". Returns an empty string if the run's own model or worker computes the loss, since the
// unit is then unknown.
std::string LossUnit(const v1::RunSpec& spec);

// Returns text such as "2.1034 nats a byte" or "NaN nats a byte", always with four decimals.
std::string LossText(double loss, absl::string_view unit = "");

// Returns "; on the own data of 8 parties: mean 2.1000, 10th percentile 1.9000, 90th 2.4000", or an
// empty string if no party has reported a loss.
std::string OwnLossText(const v1::EvaluationRecord& record);

}  // namespace atolld
