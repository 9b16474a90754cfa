#include "membership/history/run_mode.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "compression/base/names.h"

namespace atolld {
namespace {

// The limits of the config's [mode] momentum_clip and age_decay.
constexpr float kMostMomentum = 1e6f;
constexpr float kMostDecay = 100;

absl::Status NotInRange(const char* what, float value, const char* range) {
  return absl::InvalidArgumentError(
      absl::StrCat("mode: its ", what, " is ", value, ", not ", range));
}

constexpr float kMostStaleness = 100;

}  // namespace

absl::Status CheckMode(const v1::RunSpec& spec) {
  const std::string& kind = spec.mode().kind();
  const std::vector<std::string> known = {"async", "delayed", "eager", "streaming", "sync"};
  if (!kind.empty() && std::find(known.begin(), known.end(), kind) == known.end()) {
    return absl::InvalidArgumentError(UnknownNameMessage("mode", kind, known));
  }
  const float merge = absl::bit_cast<float>(spec.mode().merge_bits());
  if (!(merge >= 0 && merge < 1)) return NotInRange("merge", merge, "from 0 to below 1");
  const float momentum = absl::bit_cast<float>(spec.mode().momentum_clip_bits());
  if (!(momentum >= 0 && momentum <= kMostMomentum)) {
    return NotInRange("momentum_clip", momentum, "from 0 to 1e6");
  }
  const float decay = absl::bit_cast<float>(spec.mode().age_decay_bits());
  if (!(decay >= 0 && decay <= kMostDecay)) return NotInRange("age_decay", decay, "from 0 to 100");
  const float staleness = absl::bit_cast<float>(spec.federation().staleness_bits());
  if (!(staleness >= 0 && staleness <= kMostStaleness)) {
    return absl::InvalidArgumentError(
        absl::StrCat("federation: its staleness is ", staleness, ", not from 0 to 100"));
  }
  return absl::OkStatus();
}

bool IsStreaming(const v1::RunSpec& spec) { return spec.mode().kind() == "streaming"; }

bool TrainsAhead(const v1::RunSpec& spec) {
  return MissesAnEntry(spec) || (IsStreaming(spec) && spec.mode().overlap_steps() > 0);
}

bool MissesAnEntry(const v1::RunSpec& spec) {
  return spec.mode().kind() == "delayed" || spec.mode().kind() == "eager";
}

bool MayBeBase(const v1::RunSpec& spec, uint64_t version, uint64_t base) {
  if (base >= version) return false;
  return version - base == 1 || (MissesAnEntry(spec) && version - base == 2);
}

bool IsBaseTold(const v1::RunSpec& spec, const v1::Ready& ready) {
  if (!MayBeBase(spec, ready.version(), ready.base_version())) return false;
  return ready.version() - ready.base_version() == 1 || ready.age() > 0;
}

}  // namespace atolld
