#include "membership/run/run_experts.h"

#include "absl/strings/str_cat.h"
#include "compression/base/bitmap.h"
#include "compression/base/planted_bug.h"
#include "membership/experts/expert_owners.h"
#include "membership/experts/expert_parts.h"
#include "membership/experts/slice_owners.h"

namespace atolld {
namespace {

std::unique_ptr<PartOwners> MakeOwners(const v1::RunSpec& spec, uint32_t parts) {
  if (HasSlices(spec)) return std::make_unique<SliceOwners>(parts, spec.model().lora_slice());
  return std::make_unique<ExpertOwners>(parts, spec.experts().owners(), spec.seed());
}

}  // namespace

bool RunExperts::Know(const Ledger& ledger) {
  if (owners_ != nullptr) return true;
  if (!HasExperts(ledger.spec()) || !ledger.genesis()) return false;
  fragments_ = Fragments(ledger.spec(), ledger.genesis()->manifest());
  owners_ = MakeOwners(ledger.spec(), fragments_.experts()->experts());
  owners_->Load(ledger.header() ? &*ledger.header() : nullptr);
  return true;
}

void RunExperts::Tell(const Ledger& ledger, const Round& round, const Roster& roster,
                      const std::string& peer, v1::Train* train) {
  if (!Know(ledger)) return;
  if (!owners_->Assigned(round.version(), peer)) {
    const std::vector<std::string> there = round.There(roster);
    for (const std::string& one : there) owners_->NoteRank(one, round.Find(one)->lora_rank);
    owners_->Assign(round.version(), there);
  }
  if (const TrainingState* const state = round.Find(peer))
    owners_->NoteRank(peer, state->lora_rank);
  train->set_owned(owners_->OwnedBy(peer));
  owners_->NoteTold(peer);
}

absl::Status RunExperts::Check(const Ledger& ledger, const std::string& peer,
                               const v1::Ready& ready) {
  const uint32_t experts = Know(ledger) ? fragments_.experts()->experts() : 0;
  const bool some = experts == 0 || !fragments_.experts()->parts[0].empty() ||
                    CountBits(ready.owned()) > 0;  // what covers nothing has no length
  if (ValidOwned(ready.owned(), experts) && some) {
    if (owners_ != nullptr) owners_->Adopt(peer, ready.owned());
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("its update does not say which of the ", experts, " experts it was trained on"));
}

void RunExperts::Limit(const v1::Ready& ready, ExchangeContributor* contributor) const {
  if (owners_ == nullptr) return;
  uint64_t covered = 0;
  const std::vector<std::vector<PartRange>>& parts = fragments_.experts()->parts;
  for (uint32_t part = 0; part < parts.size(); ++part) {
    if (!Covers(ready.owned(), part)) continue;
    for (const PartRange& range : parts[part]) covered += range.count;
  }
  contributor->share = static_cast<double>(covered) / static_cast<double>(fragments_.elements());
  contributor->member.set_owned(Planted(PlantedBug::kStaleOwnerTaken)
                                    ? ready.owned()
                                    : owners_->Counted(contributor->member.peer(), ready.owned()));
}

uint64_t RunExperts::Elements(const Ledger& ledger, uint64_t version) {
  if (Know(ledger)) return fragments_.Of(version).elements();
  return FragmentElements(ledger.spec(), ledger.genesis()->manifest(), version);
}

void RunExperts::Fill(const Ledger& ledger, ExchangeTerms* terms) {
  if (!Know(ledger)) return;
  terms->grid = fragments_.Grid(terms->version, terms->chunk_elements);
}

void RunExperts::Show(v1::RunStatus* status) const {
  if (owners_ == nullptr) return;
  const std::vector<uint32_t>& numbers = fragments_.experts()->numbers;
  for (size_t i = 0; i < numbers.size(); ++i) {
    v1::ExpertStatus* const expert = status->add_experts();
    expert->set_number(numbers[i]);
    for (const auto& [peer, owned] : owners_->owned()) {
      if (BitAt(owned, i)) expert->add_owners(peer);
    }
  }
}

}  // namespace atolld
