#include "tests/sim/expert_law.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "compression/base/bitmap.h"
#include "membership/history/mean_records.h"
#include "tests/sim/oracle_fragments.h"

namespace atolld {
namespace {

constexpr int kOwnership = 20;

}  // namespace

bool ExpertLaw::Covers(const std::string& owned, size_t part) {
  return part == 0 || BitAt(owned, part - 1);
}

void ExpertLaw::OnGenesis(const v1::Genesis& genesis) {
  if (owners_ != 0) return;  // a second genesis has the same manifest
  owners_ = genesis.spec().experts().owners();
  slices_ = genesis.spec().model().lora_slice() != 0;
  if (slices_) owners_ = std::numeric_limits<uint32_t>::max();  // each peer says its own
  if (owners_ == 0) return;
  parts_ = OracleParts(genesis.spec(), genesis.manifest());
  experts_ = parts_.back();
  const std::vector<size_t> places = OracleFragments(genesis.spec(), genesis.manifest()).front();
  parts_of_values_.resize(genesis.manifest().elements());
  for (size_t at = 0; at < places.size(); ++at) {
    if (places[at] == kNoPlace) continue;
    parts_of_values_[places[at]] = PartOf(at / genesis.spec().exchange().chunk_elements());
  }
}

void ExpertLaw::OnTraining(const std::string& peer, const v1::TrainSteps& train) {
  if (owners_ == 0) return;
  std::vector<bool>& frozen = workers_[peer].frozen;
  frozen.assign(parts_of_values_.size(), false);
  uint64_t end = 0;
  for (const v1::ValueRange& range : train.frozen()) {
    if (range.count() == 0 || range.first() < end ||
        range.first() + range.count() > frozen.size()) {
      return violate_(kOwnership, absl::StrCat("the worker of ", peer, " is told to leave ",
                                               range.ShortDebugString(), " as it is, after value ",
                                               end, " of ", frozen.size()));
    }
    end = range.first() + range.count();
    for (uint64_t i = range.first(); i < end; ++i) frozen[i] = true;
  }
}

void ExpertLaw::OnUpdate(const std::string& peer, absl::Span<const float> update) {
  if (owners_ == 0) return;
  Worker& worker = workers_[peer];
  worker.trained = worker.frozen;
  for (size_t i = 0; i < worker.trained.size(); ++i) {
    if (!worker.trained[i] || update[i] == 0) continue;
    return violate_(kOwnership, absl::StrCat("the update of ", peer, " moves value ", i,
                                             ", which it was told to leave as it is"));
  }
}

// Returns true if it is a bitmap of all experts.
bool ExpertLaw::Whole(const std::string& owned, const std::string& whose) {
  const bool beyond = experts_ % 8 != 0 && !owned.empty() &&
                      (static_cast<uint8_t>(owned.back()) >> (experts_ % 8)) != 0;
  if (owned.size() == (experts_ + 7) / 8 && !beyond) return true;
  violate_(kOwnership, absl::StrCat(whose, " has a bitmap of ", owned.size(), " bytes for ",
                                    experts_, " experts, or one with bits beyond them"));
  return false;
}

void ExpertLaw::OnTrain(const std::string& peer, const v1::Train& train) {
  if (owners_ == 0 || !Whole(train.owned(), absl::StrCat("a Train of ", peer))) return;
  told_[{peer, train.number()}].insert(train.owned());
  for (size_t part = 1; slices_ && part <= experts_; ++part) {
    const bool before = part == 1 ? true : Covers(train.owned(), part - 1);
    if (Covers(train.owned(), part) ? before : part > 1) continue;
    return violate_(kOwnership,
                    absl::StrCat("a Train of ", peer, " does not have the first slices: ", part - 1,
                                 " of ", experts_));
  }
}

void ExpertLaw::OnReady(const std::string& peer, const v1::Ready& ready) {
  if (owners_ == 0) return;
  const auto told = told_.find({peer, ready.train_number()});
  if (told == told_.end() || told->second.count(ready.owned()) == 0) {
    return violate_(kOwnership, absl::StrCat(peer, " is ready for version ", ready.version(),
                                             " with other experts than its Train ",
                                             ready.train_number(), " said"));
  }
  offered_[{peer, ready.contribution_root()}].insert(ready.owned());
  CheckFrozen(peer, ready);
}

// An update that is said again is not compared again: the worker may have a newer one by then.
void ExpertLaw::CheckFrozen(const std::string& peer, const v1::Ready& ready) {
  Worker& worker = workers_[peer];
  if (worker.judged == ready.train_number()) return;
  worker.judged = ready.train_number();
  for (size_t i = 0; i < worker.trained.size(); ++i) {
    if (worker.trained[i] != Covers(ready.owned(), parts_of_values_[i])) continue;
    return violate_(kOwnership,
                    absl::StrCat("the worker of ", peer, " ", worker.trained[i] ? "was" : "was not",
                                 " told to leave value ", i, " of part ", parts_of_values_[i],
                                 " as it is, and its peer ",
                                 worker.trained[i] ? "owns" : "does not own", " it"));
  }
}

// No more peers own an expert than the run says.
void ExpertLaw::CheckMost(const std::vector<std::string>& owned, const std::string& what) {
  for (size_t part = 1; part <= experts_; ++part) {
    const auto count = std::count_if(owned.begin(), owned.end(),
                                     [&](const auto& one) { return Covers(one, part); });
    if (count <= static_cast<int64_t>(owners_)) continue;
    violate_(kOwnership, absl::StrCat(what, " counts ", count, " owners of expert ", part - 1,
                                      ", and the run has ", owners_));
  }
}

void ExpertLaw::OnPlan(const v1::Plan& plan) {
  if (owners_ == 0) return;
  const std::string what = absl::StrCat("the plan of version ", plan.version());
  std::vector<std::string> owned;
  for (const v1::PlanMember& member : plan.contributors()) {
    if (!Whole(member.owned(), absl::StrCat(what, ": ", member.peer()))) return;
    owned.push_back(member.owned());
    const auto offered = offered_.find({member.peer(), member.contribution_root()});
    const bool within = offered != offered_.end() &&
                        std::any_of(offered->second.begin(), offered->second.end(),
                                    [&](const auto& one) { return Contains(one, member.owned()); });
    if (within) continue;
    violate_(kOwnership, absl::StrCat(what, " takes experts of ", member.peer(),
                                      " on which its update was not trained"));
  }
  CheckMost(owned, what);
  plan_ = plan;
}

void ExpertLaw::OnHeader(const v1::EntryHeader& header) {
  if (owners_ == 0) return;
  const std::string what = absl::StrCat("header ", header.version());
  std::vector<std::string> owned;
  for (const v1::Contributor& one : header.contributors()) {
    if (!Whole(one.owned(), absl::StrCat(what, ": ", one.peer()))) return;
    owned.push_back(one.owned());
    if (plan_.version() != header.version()) continue;
    for (const v1::PlanMember& member : plan_.contributors()) {
      if (member.peer() != one.peer() || member.owned() == one.owned()) continue;
      violate_(kOwnership,
               absl::StrCat(what, " names other experts of ", one.peer(), " than the plan"));
    }
  }
  CheckMost(owned, what);
  CheckSets(header);
}

// A chunk's mean counts only contributors that own its expert.
void ExpertLaw::CheckSets(const v1::EntryHeader& header) {
  const auto check = [&](uint32_t first, uint32_t chunks, const v1::ContributorSet& set) {
    for (uint32_t chunk = first; chunk < first + chunks; ++chunk) {
      for (int i = 0; i < header.contributors_size(); ++i) {
        const v1::Contributor& one = header.contributors(i);
        if (!BitAt(set.contributors(), static_cast<size_t>(i)) ||
            Covers(one.owned(), PartOf(chunk))) {
          continue;
        }
        violate_(kOwnership,
                 absl::StrCat("header ", header.version(), " counts ", one.peer(), " in chunk ",
                              chunk, " of expert ", PartOf(chunk) - 1, ", which it does not own"));
      }
    }
  };
  for (const v1::ShardRecord& shard : header.records().shards()) {
    ForEachRun(header.records(), shard, check);
  }
}

}  // namespace atolld
