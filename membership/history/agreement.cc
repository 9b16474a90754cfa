#include "membership/history/agreement.h"

#include <algorithm>

#include "compression/base/bitmap.h"
#include "membership/history/fragment.h"
#include "membership/history/state_buffers.h"
#include "membership/history/step_scalars.h"

namespace atolld {
namespace {

// Returns the same bitmap with only the bits of the contributors that stay.
std::string Compact(const std::string& bitmap, const std::vector<bool>& stays) {
  std::string out;
  size_t bit = 0;
  for (size_t i = 0; i < stays.size(); ++i) {
    if (!stays[i]) continue;
    if (bit % 8 == 0) out.push_back('\0');
    if (BitAt(bitmap, i)) SetBit(&out, bit);
    ++bit;
  }
  return out;
}

}  // namespace

bool FromCentre(const v1::Plan& plan) {
  return plan.from_centre() ||
         std::any_of(plan.contributors().begin(), plan.contributors().end(),
                     [](const auto& member) { return member.squared_distance_bits() != 0; });
}

std::vector<bool> Included(const v1::Plan& plan, const v1::Vote& agreement) {
  std::vector<bool> included(static_cast<size_t>(plan.contributors_size()), false);
  const auto add = [&](const std::string& bitmap) {
    for (size_t i = 0; i < included.size(); ++i) included[i] = included[i] || BitAt(bitmap, i);
  };
  for (const v1::ContributorSet& set : agreement.records().sets()) add(set.contributors());
  return included;
}

v1::EntryHeader MakeHeader(const HeaderTerms& terms, const v1::Plan& plan,
                           const v1::Vote& agreement) {
  v1::EntryHeader header;
  header.set_run_id(terms.spec.run_id());
  header.set_version(plan.version());
  header.set_range_offset(0);
  header.set_range_elements(plan.parameters());
  header.set_base_version(plan.version() - 1);
  header.set_apply_step(0);
  const std::vector<bool> included = Included(plan, agreement);
  for (size_t i = 0; i < included.size(); ++i) {
    if (!included[i]) continue;
    const v1::PlanMember& member = plan.contributors(static_cast<int>(i));
    v1::Contributor* contributor = header.add_contributors();
    contributor->set_peer(member.peer());
    contributor->set_weight_bits(member.weight_bits());
    contributor->set_steps(member.steps());
    contributor->set_tokens(member.tokens());
    contributor->set_scale_bits(member.scale_bits());
    contributor->set_owned(member.owned());
    if (terms.parties) contributor->set_parties(terms.parties(member.peer()));
    if (terms.age && CountsAges(terms.spec)) contributor->set_age(terms.age(member.peer()));
    if (terms.slow_codec) contributor->set_slow_codec(terms.slow_codec(member.peer()));
    if (terms.base) {
      header.set_base_version(std::min(header.base_version(), terms.base(member.peer())));
    }
    for (const v1::SampleRange& range : terms.samples(member.peer())) {
      *contributor->add_samples() = range;
    }
  }
  *header.mutable_records()->mutable_shards() = agreement.records().shards();
  for (const v1::ContributorSet& set : agreement.records().sets()) {
    v1::ContributorSet* const compact = header.mutable_records()->add_sets();
    compact->set_contributors(Compact(set.contributors(), included));
    for (const std::string& partial : set.partials()) {
      compact->add_partials(Compact(partial, included));
    }
  }
  for (const v1::Scalar& scalar : terms.scalars) *header.add_scalars() = scalar;
  AddControlScalars(terms.spec, terms.run_parties, &header);
  AddStepScalars(terms.spec, terms.previous, terms.squared_mean, &header);
  header.set_outer_rule(terms.spec.outer().rule());
  const v1::ExchangeSpec& exchange = terms.spec.exchange();
  header.set_codec(exchange.upper_codec().empty() ? exchange.codec() : exchange.upper_codec());
  header.set_chunk_elements(terms.spec.exchange().chunk_elements());
  header.set_aggregation(exchange.aggregation());
  header.set_faulty(exchange.faulty());
  header.set_clipping_steps(FromCentre(plan) ? 1 : 0);
  header.set_payload_digest(agreement.payload_digest());
  header.set_previous_state_digest(agreement.state_digest());
  if (const uint32_t fragments = FragmentsOf(terms.spec); fragments > 1) {
    header.set_fragment(FragmentOf(terms.spec, plan.version()));
    header.set_fragments(fragments);
  }
  header.set_audit_nonce(terms.audit_nonce);
  header.set_previous_header_digest(terms.previous_header_digest);
  return header;
}

}  // namespace atolld
