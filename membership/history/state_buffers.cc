#include "membership/history/state_buffers.h"

#include <algorithm>

#include "absl/base/casts.h"
#include "compression/base/status_macros.h"
#include "optimizer/control_variate.h"
#include "optimizer/outer_rule.h"

namespace atolld {

absl::StatusOr<std::vector<std::string>> StateBuffers(const v1::RunSpec& spec) {
  ASSIGN_OR_RETURN(const OuterRule* rule, FindOuterRule(spec.outer().rule()));
  std::vector<std::string> names = rule->buffers();
  if (spec.inner().control_variates()) names.push_back(kControlBuffer);
  return names;
}

void AddControlScalars(const v1::RunSpec& spec, uint64_t parties, v1::EntryHeader* header) {
  if (!spec.inner().control_variates()) return;
  uint64_t contributed = 0;
  double weights = 0, steps = 0;
  for (const v1::Contributor& contributor : header->contributors()) {
    const uint32_t own = std::max<uint32_t>(1, contributor.parties());
    contributed += own;
    const double weight = absl::bit_cast<float>(contributor.weight_bits());
    weights += weight;
    steps += weight * static_cast<double>(contributor.steps()) / own;
  }
  const double all = static_cast<double>(std::max<uint64_t>({1, parties, contributed}));
  const double share = static_cast<double>(std::max<uint64_t>(1, contributed)) / all;
  const double done = steps > 0 ? steps / weights : std::max<uint32_t>(1, spec.inner().steps());
  const auto add = [header](const char* name, double value) {
    v1::Scalar* const scalar = header->add_scalars();
    scalar->set_name(name);
    scalar->set_bits(absl::bit_cast<uint32_t>(static_cast<float>(value)));
  };
  add(kControlShare, share);
  add(kControlRate, 1 / (done * spec.inner().learning_rate()));
  std::sort(header->mutable_scalars()->begin(), header->mutable_scalars()->end(),
            [](const v1::Scalar& a, const v1::Scalar& b) { return a.name() < b.name(); });
}

}  // namespace atolld
