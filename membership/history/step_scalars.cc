#include "membership/history/step_scalars.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "optimizer/outer_rule.h"

namespace atolld {
namespace {

constexpr double kPi = 3.14159265358979323846;

// The part of the way to the newest length that the usual length moves with each entry.
constexpr double kUsualShare = 0.1;

// 1 + 1 / kUsualShare, plus what rounding may add.
constexpr float kLargestGap = 11.001f;

// The relative tolerance for values that depend on exp and cos.
constexpr double kNearly = 1e-6;

float Decay(const v1::RunSpec& spec) { return absl::bit_cast<float>(spec.mode().age_decay_bits()); }

std::optional<float> Find(const v1::EntryHeader& header, const char* name) {
  for (const v1::Scalar& scalar : header.scalars()) {
    if (scalar.name() == name) return absl::bit_cast<float>(scalar.bits());
  }
  return std::nullopt;
}

using Scalars = std::map<std::string, float>;

// The scalars that the header alone determines, by name.
struct OwnScalars {
  Scalars exact;       // the same bits on every machine
  Scalars nearly;      // depend on exp and cos
  double factors = 0;  // the sum of f_i
};

// Returns N of "delayed_nesterov".
double BufferOf(const v1::RunSpec& spec) { return std::max<uint32_t>(1, spec.outer().buffer()); }

bool GathersUpdates(const v1::RunSpec& spec) { return spec.outer().rule() == "delayed_nesterov"; }

double Counted(const v1::RunSpec& spec, const OwnScalars& own) {
  return std::min(BufferOf(spec), own.factors);
}

float RestOf(const v1::RunSpec& spec, float due, float waiting) {
  return due == 0 ? 0 : static_cast<float>(double{waiting} / BufferOf(spec));
}

// Returns the scalars that also depend on the previous header.
Scalars GatheredScalars(const v1::RunSpec& spec, const v1::EntryHeader* previous, double counted) {
  const double before = previous == nullptr ? 0 : Find(*previous, kWaitingScalar).value_or(0.0f);
  const auto gathered = static_cast<float>(before + counted);
  const double buffer = BufferOf(spec);
  const float due = double{gathered} >= buffer ? 1 : 0;
  const float waiting = due == 0 ? gathered : static_cast<float>(double{gathered} - buffer);
  return {{kDueScalar, due}, {kRestScalar, RestOf(spec, due, waiting)}, {kWaitingScalar, waiting}};
}

double Discount(const v1::RunSpec& spec, double age) {
  const double cutoff = CountsAges(spec) ? spec.mode().age_cutoff() : 0;
  const double decayed = CountsAges(spec) ? std::exp(-double{Decay(spec)} * age) : 1;
  if (cutoff == 0) return decayed;
  return age >= cutoff ? 0 : decayed * (1 + std::cos(kPi * age / cutoff)) / 2;
}

OwnScalars OwnScalarsOf(const v1::RunSpec& spec, const v1::EntryHeader& header) {
  OwnScalars own;
  double tokens = 0;
  double aged = 0;
  for (const v1::Contributor& contributor : header.contributors()) {
    const auto counted = static_cast<double>(std::max<uint64_t>(1, contributor.tokens()));
    own.factors += AgeFactor(spec, contributor.age());
    tokens += counted;
    aged += counted * contributor.age();
  }
  if (GathersUpdates(spec)) {
    own.nearly[kShareScalar] = static_cast<float>(Counted(spec, own) / BufferOf(spec));
  }
  if (spec.outer().rule() == "cgad") {
    const auto age = static_cast<float>(tokens > 0 ? aged / tokens : 0);
    own.exact[kAgeScalar] = age;
    own.nearly[kDiscountScalar] = static_cast<float>(Discount(spec, double{age}));
  }
  if (spec.mode().momentum_clip_bits() != 0) {
    own.exact[kMomentumClipScalar] = absl::bit_cast<float>(spec.mode().momentum_clip_bits());
  }
  return own;
}

float Gap(const v1::EntryHeader* previous) {
  if (previous == nullptr) return 1;
  const double length = Find(*previous, kMeanLengthScalar).value_or(0.0f);
  const double usual = Find(*previous, kUsualLengthScalar).value_or(0.0f);
  return usual > 0 ? static_cast<float>(1 + length / usual) : 1;
}

Scalars GapScalars(const v1::EntryHeader* previous, double squared_mean) {
  // An unknown length leaves the usual length unchanged.
  float length = squared_mean > 0 ? static_cast<float>(std::sqrt(squared_mean)) : 0;
  if (!std::isfinite(length)) length = 0;
  const float before = previous == nullptr ? 0 : Find(*previous, kUsualLengthScalar).value_or(0.0f);
  float usual = before;
  if (length > 0) {
    usual =
        before > 0 ? static_cast<float>(before + kUsualShare * (double{length} - before)) : length;
  }
  return {{kGapScalar, Gap(previous)}, {kMeanLengthScalar, length}, {kUsualLengthScalar, usual}};
}

absl::Status Wrong(const std::string& name, const std::optional<float>& value,
                   const std::string& right) {
  return absl::InvalidArgumentError(
      absl::StrCat("scalar ", name,
                   value ? absl::StrCat(" is ", *value) : std::string(" is missing"), "; ", right));
}

// The number of updates that waited before is not known here, so the count is checked only for its
// range.
absl::Status CheckGathered(const v1::RunSpec& spec, const v1::EntryHeader& header, double counted) {
  if (!GathersUpdates(spec)) return absl::OkStatus();
  const std::optional<float> due = Find(header, kDueScalar);
  const std::optional<float> waiting = Find(header, kWaitingScalar);
  const std::optional<float> rest = Find(header, kRestScalar);
  if (!due || (*due != 0 && *due != 1)) return Wrong(kDueScalar, due, "it must be 0 or 1");
  // Everything that the entry counts waits, unless the momentum has taken a part of it.
  const double near = kNearly * BufferOf(spec);
  const double least = *due == 0 ? counted - near : 0;
  const double most = *due == 0 ? BufferOf(spec) : counted + near;
  if (!waiting || !(double{*waiting} >= least && double{*waiting} <= most)) {
    return Wrong(kWaitingScalar, waiting,
                 absl::StrCat("by its contributors it must be from ", least, " to ", most));
  }
  const float right = RestOf(spec, *due, *waiting);
  if (rest && absl::bit_cast<uint32_t>(*rest) == absl::bit_cast<uint32_t>(right)) {
    return absl::OkStatus();
  }
  return Wrong(kRestScalar, rest, absl::StrCat("by what waits it is ", right));
}

absl::Status CheckGapScalars(const v1::RunSpec& spec, const v1::EntryHeader& header) {
  const std::optional<float> gap = Find(header, kGapScalar);
  const std::optional<float> length = Find(header, kMeanLengthScalar);
  const std::optional<float> usual = Find(header, kUsualLengthScalar);
  if (!spec.mode().gap_penalty()) {
    if (!gap && !length && !usual) return absl::OkStatus();
    return absl::InvalidArgumentError("it tells a gap, and the run has no gap penalty");
  }
  if (!gap || !(*gap >= 1 && *gap <= kLargestGap)) {
    return Wrong(kGapScalar, gap, absl::StrCat("it must be from 1 to ", kLargestGap));
  }
  if (!length || !(*length >= 0)) return Wrong(kMeanLengthScalar, length, "it must be 0 or above");
  if (!usual || !(*usual >= 0)) return Wrong(kUsualLengthScalar, usual, "it must be 0 or above");
  return absl::OkStatus();
}

}  // namespace

bool CountsAges(const v1::RunSpec& spec) {
  return spec.mode().kind() == "delayed" || spec.mode().kind() == "async";
}

double AgeFactor(const v1::RunSpec& spec, uint32_t age) {
  return CountsAges(spec) ? std::exp(-double{Decay(spec)} * age) : 1;
}

bool IsTooOld(const v1::RunSpec& spec, uint32_t age) {
  const uint32_t cutoff = spec.mode().age_cutoff();
  return CountsAges(spec) && cutoff > 0 && age >= cutoff;
}

void AddStepScalars(const v1::RunSpec& spec, const v1::EntryHeader* previous, double squared_mean,
                    v1::EntryHeader* header) {
  const OwnScalars own = OwnScalarsOf(spec, *header);
  Scalars added = own.exact;
  added.insert(own.nearly.begin(), own.nearly.end());
  if (GathersUpdates(spec)) {
    const Scalars gathered = GatheredScalars(spec, previous, Counted(spec, own));
    added.insert(gathered.begin(), gathered.end());
  }
  if (spec.mode().gap_penalty()) {
    const Scalars gap = GapScalars(previous, squared_mean);
    added.insert(gap.begin(), gap.end());
  }
  if (added.empty()) return;
  std::map<std::string, uint32_t> all;
  for (const v1::Scalar& scalar : header->scalars()) all[scalar.name()] = scalar.bits();
  for (const auto& [name, value] : added) all[name] = absl::bit_cast<uint32_t>(value);
  header->clear_scalars();
  for (const auto& [name, bits] : all) {
    v1::Scalar* const scalar = header->add_scalars();
    scalar->set_name(name);
    scalar->set_bits(bits);
  }
}

absl::Status CheckStepScalars(const v1::RunSpec& spec, const v1::EntryHeader& header) {
  const OwnScalars own = OwnScalarsOf(spec, header);
  for (const auto& [name, right] : own.exact) {
    const std::optional<float> told = Find(header, name.c_str());
    if (told && absl::bit_cast<uint32_t>(*told) == absl::bit_cast<uint32_t>(right)) continue;
    return Wrong(name, told, absl::StrCat("by its contributors and the run it is ", right));
  }
  for (const auto& [name, right] : own.nearly) {
    const std::optional<float> told = Find(header, name.c_str());
    const double most = kNearly * double{right} + double{std::numeric_limits<float>::min()};
    if (told && std::fabs(double{*told} - right) <= most) continue;
    return Wrong(name, told, absl::StrCat("by its contributors and the run it is ", right));
  }
  if (spec.mode().momentum_clip_bits() == 0 && Find(header, kMomentumClipScalar)) {
    return absl::InvalidArgumentError("it clips the momentum, and the run does not");
  }
  RETURN_IF_ERROR(CheckGathered(spec, header, Counted(spec, own)));
  return CheckGapScalars(spec, header);
}

}  // namespace atolld
