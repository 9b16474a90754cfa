#include "daemon/experiment/partition/partitioner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "daemon/experiment/partition/keyed_draws.h"

namespace atolld {
namespace {

// Dirichlet is drawn again while a party has too few samples: as often as takes seconds, at least
// ten times, as flwr-datasets does, and at most a thousand times.
constexpr uint64_t kSharesToDraw = 20000000;
constexpr uint64_t kFewestDraws = 10;
constexpr uint64_t kMostDraws = 1000;
constexpr uint64_t kMostMixes = 200000000;  // parties times labels, 8 bytes each

using Indices = std::vector<uint32_t>;

// Cuts `total` in proportion to `shares`: their cumulative sums, rounded down.
std::vector<uint64_t> CutByShares(uint64_t total, const std::vector<double>& shares) {
  double sum = 0;
  for (const double share : shares) sum += share;
  std::vector<uint64_t> sizes(shares.size());
  double reached = 0;
  uint64_t cut = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    reached += shares[i];
    uint64_t next = total;
    if (i + 1 < shares.size()) {
      const double at = std::floor(reached / sum * static_cast<double>(total));
      next = std::clamp(static_cast<uint64_t>(at), cut, total);
    }
    sizes[i] = next - cut;
    cut = next;
  }
  return sizes;
}

std::vector<uint64_t> EqualSizes(uint64_t total, uint64_t parts) {
  std::vector<uint64_t> sizes(parts, total / parts);
  for (uint64_t i = 0; i < total % parts; ++i) ++sizes[i];
  return sizes;
}

class SampleDealer {
 public:
  SampleDealer(const PartitionSettings& settings, const SampleSet& set)
      : s_(settings), set_(set), labels_(set.labels.size()) {}

  absl::StatusOr<Assignment> Deal() {
    HoldOut();
    out_.parties.resize(s_.parties);
    const uint64_t needed = uint64_t{s_.parties} * s_.fewest();
    if (needed > pool_.size()) {
      return Impossible(absl::StrCat(Counted(s_.parties, "party"), " of at least ",
                                     Counted(s_.fewest(), "sample"), " need ", needed,
                                     ", and there are ", pool_.size()));
    }
    RETURN_IF_ERROR(DealByScheme());
    for (Indices& party : out_.parties) std::sort(party.begin(), party.end());
    RETURN_IF_ERROR(CheckFewest());
    out_.left_over.insert(out_.left_over.begin(), set_.left_over.begin(), set_.left_over.end());
    return std::move(out_);
  }

 private:
  static absl::Status Impossible(absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("[partition] ", what));
  }

  void HoldOut() {
    pool_.resize(set_.samples.size());
    std::iota(pool_.begin(), pool_.end(), 0);
    if (s_.validation <= 0) return;
    const double wanted = std::floor(s_.validation * static_cast<double>(pool_.size()) + 0.5);
    const size_t held = std::max<size_t>(1, static_cast<size_t>(wanted));
    KeyedDraws(s_.seed, "validation").Shuffle(&pool_);
    out_.validation.assign(pool_.begin(), pool_.begin() + static_cast<ptrdiff_t>(held));
    pool_.erase(pool_.begin(), pool_.begin() + static_cast<ptrdiff_t>(held));
    std::sort(out_.validation.begin(), out_.validation.end());
    std::sort(pool_.begin(), pool_.end());
  }

  absl::Status DealByScheme() {
    if (s_.scheme == "dirichlet") return DealDirichlet();
    if (s_.scheme == "inner_dirichlet") return DealInnerDirichlet();
    if (s_.scheme == "shards") return DealShards();
    if (s_.scheme == "pathological") return DealClasses();
    if (s_.scheme == "key") return DealKeys();
    if (s_.scheme == "grouped_key") return DealGroups();
    if (s_.scheme == "continuous") return DealContinuous();
    const std::vector<uint64_t> sizes = Sizes(s_.scheme == "iid" ? "equal" : s_.scheme);
    KeyedDraws(s_.seed, "iid").Shuffle(&pool_);
    DealInOrder(sizes);
    return absl::OkStatus();
  }

  // The pool, as it stands, to one party after the other.
  void DealInOrder(const std::vector<uint64_t>& sizes) {
    size_t at = 0;
    for (size_t party = 0; party < sizes.size(); ++party) {
      const auto begin = pool_.begin() + static_cast<ptrdiff_t>(at);
      out_.parties[party].assign(begin, begin + static_cast<ptrdiff_t>(sizes[party]));
      at += sizes[party];
    }
  }

  std::vector<uint64_t> Sizes(const std::string& law) const {
    if (law == "equal") return EqualSizes(pool_.size(), s_.parties);
    std::vector<double> shares(s_.parties);
    KeyedDraws draws(s_.seed, "sizes");
    for (size_t i = 0; i < shares.size(); ++i) {
      const double number = static_cast<double>(i + 1);
      if (law == "linear") shares[i] = number;
      if (law == "square") shares[i] = number * number;
      // In proportion to e^i, and within fp64 for any number of parties.
      if (law == "exponential") shares[i] = PortableExp(number - static_cast<double>(s_.parties));
      if (law == "log_normal") shares[i] = PortableExp(s_.sigma * draws.Normal());
    }
    return CutByShares(pool_.size(), shares);
  }

  // The pool's samples of each label, each list in the order of the pool.
  std::vector<Indices> ByLabel() const {
    std::vector<Indices> lists(labels_);
    for (const uint32_t sample : pool_) lists[set_.samples[sample].label].push_back(sample);
    return lists;
  }

  absl::Status DealDirichlet() {
    KeyedDraws(s_.seed, "dirichlet order").Shuffle(&pool_);
    const std::vector<Indices> lists = ByLabel();
    const uint64_t shares = std::max<uint64_t>(1, uint64_t{s_.parties} * labels_);
    const uint64_t most = std::clamp(kSharesToDraw / shares, kFewestDraws, kMostDraws);
    for (uint64_t draw = 0; draw < most; ++draw) {
      const std::vector<std::vector<uint64_t>> sizes = DrawDirichlet(lists, draw);
      std::vector<uint64_t> totals(s_.parties);
      for (const std::vector<uint64_t>& of_label : sizes) {
        for (size_t party = 0; party < totals.size(); ++party) totals[party] += of_label[party];
      }
      if (*std::min_element(totals.begin(), totals.end()) < s_.fewest()) continue;
      for (size_t label = 0; label < labels_; ++label) DealList(lists[label], sizes[label]);
      out_.draws = draw + 1;
      return absl::OkStatus();
    }
    return Impossible(
        absl::StrCat("alpha ", s_.alpha, " leaves a party with fewer than ",
                     Counted(s_.fewest(), "sample"), " in each of ", most,
                     " draws: take a larger alpha, a smaller min_samples, or fewer parties",
                     s_.balance ? "" : ", or balance = true"));
  }

  // How many samples of each label each party gets.
  std::vector<std::vector<uint64_t>> DrawDirichlet(const std::vector<Indices>& lists,
                                                   uint64_t draw) const {
    KeyedDraws draws(s_.seed, "dirichlet", draw);
    std::vector<std::vector<uint64_t>> sizes(labels_);
    std::vector<uint64_t> totals(s_.parties);
    const double mean = static_cast<double>(pool_.size()) / s_.parties;
    for (size_t label = 0; label < labels_; ++label) {
      std::vector<double> shares = draws.Dirichlet(s_.alpha, s_.parties);
      double open = 0;
      for (size_t party = 0; party < totals.size(); ++party) {
        if (s_.balance && static_cast<double>(totals[party]) >= mean) shares[party] = 0;
        open += shares[party];
      }
      // All that this label was for have their share: those who have not divide it evenly.
      for (size_t party = 0; open <= 0 && party < totals.size(); ++party) {
        shares[party] = static_cast<double>(totals[party]) < mean ? 1 : 0;
      }
      sizes[label] = CutByShares(lists[label].size(), shares);
      for (size_t party = 0; party < totals.size(); ++party) totals[party] += sizes[label][party];
    }
    return sizes;
  }

  void DealList(const Indices& list, const std::vector<uint64_t>& sizes) {
    size_t at = 0;
    for (size_t party = 0; party < sizes.size(); ++party) {
      for (uint64_t i = 0; i < sizes[party]; ++i) out_.parties[party].push_back(list[at++]);
    }
  }

  absl::Status DealInnerDirichlet() {
    if (uint64_t{s_.parties} * labels_ > kMostMixes) {
      return Impossible(absl::StrCat(Counted(s_.parties, "party"), " times ",
                                     Counted(labels_, "label"),
                                     " are too many mixes: keep_labels makes labels fewer"));
    }
    KeyedDraws draws(s_.seed, "inner dirichlet");
    draws.Shuffle(&pool_);
    std::vector<Indices> lists = ByLabel();
    std::vector<std::vector<double>> mixes;
    for (size_t i = 0; i < s_.parties; ++i) mixes.push_back(draws.Dirichlet(s_.alpha, labels_));
    std::vector<uint64_t> left = Sizes(s_.sizes);
    Indices open;
    for (uint32_t party = 0; party < s_.parties; ++party) {
      if (left[party] > 0) open.push_back(party);
    }
    while (!open.empty()) {
      const size_t chosen = draws.Below(open.size());
      const uint32_t party = open[chosen];
      Indices& list = lists[LabelOf(mixes[party], lists, draws.Uniform())];
      out_.parties[party].push_back(list.back());
      list.pop_back();
      if (--left[party] > 0) continue;
      open[chosen] = open.back();
      open.pop_back();
    }
    return absl::OkStatus();
  }

  // A label by the mix, among those that are not used up; if none of the mix is left, by what is.
  static size_t LabelOf(const std::vector<double>& mix, const std::vector<Indices>& lists,
                        double uniform) {
    double in_mix = 0, in_all = 0;
    for (size_t label = 0; label < mix.size(); ++label) {
      if (lists[label].empty()) continue;
      in_mix += mix[label];
      in_all += static_cast<double>(lists[label].size());
    }
    double to_go = uniform * (in_mix > 0 ? in_mix : in_all);
    size_t last = 0;
    for (size_t label = 0; label < mix.size(); ++label) {
      const double part = in_mix > 0 ? mix[label] : static_cast<double>(lists[label].size());
      if (lists[label].empty() || part <= 0) continue;
      last = label;
      to_go -= part;
      if (to_go <= 0) break;
    }
    return last;
  }

  absl::Status DealShards() {
    const uint64_t shards = uint64_t{s_.parties} * s_.shards;
    const uint64_t size = pool_.size() / shards;
    if (size == 0) {
      return Impossible(absl::StrCat(shards, " shards are more than the ",
                                     Counted(pool_.size(), "sample"), " that there are"));
    }
    KeyedDraws draws(s_.seed, "shards");
    draws.Shuffle(&pool_);
    std::stable_sort(pool_.begin(), pool_.end(), [&](uint32_t a, uint32_t b) {
      return set_.samples[a].label < set_.samples[b].label;
    });
    std::vector<uint64_t> order(shards);
    std::iota(order.begin(), order.end(), 0);
    draws.Shuffle(&order);
    for (uint64_t i = 0; i < shards; ++i) {
      Indices& party = out_.parties[i / s_.shards];
      for (uint64_t at = order[i] * size; at < (order[i] + 1) * size; ++at) {
        party.push_back(pool_[at]);
      }
    }
    if (const uint64_t rest = pool_.size() - shards * size; rest > 0) {
      out_.left_over.push_back({"they do not fill a shard", rest});
    }
    return absl::OkStatus();
  }

  absl::Status DealClasses() {
    KeyedDraws draws(s_.seed, "pathological");
    draws.Shuffle(&pool_);
    const std::vector<Indices> lists = ByLabel();
    Indices there;  // labels that the held-out share has not used up
    for (uint32_t label = 0; label < labels_; ++label) {
      if (!lists[label].empty()) there.push_back(label);
    }
    if (s_.classes > there.size()) {
      return Impossible(absl::StrCat("classes is ", s_.classes, ", and there are ",
                                     Counted(there.size(), "label")));
    }
    std::vector<Indices> owners(labels_);
    for (uint32_t party = 0; party < s_.parties; ++party) {
      Indices choice = there;
      std::swap(choice[0], choice[party % there.size()]);
      for (uint32_t i = 0; i < s_.classes; ++i) {
        if (i > 0) std::swap(choice[i], choice[i + draws.Below(choice.size() - i)]);
        owners[choice[i]].push_back(party);
      }
    }
    uint64_t unowned = 0;
    for (size_t label = 0; label < labels_; ++label) {
      if (owners[label].empty()) {
        unowned += lists[label].size();
        continue;
      }
      if (owners[label].size() > lists[label].size()) {
        return Impossible(absl::StrCat(
            "label '", set_.labels[label], "' has ", Counted(lists[label].size(), "sample"),
            " for ", Counted(owners[label].size(), "party"),
            ": take fewer parties or classes, or let keep_labels join rare labels"));
      }
      std::vector<uint64_t> sizes(s_.parties);
      const std::vector<uint64_t> parts = EqualSizes(lists[label].size(), owners[label].size());
      for (size_t i = 0; i < parts.size(); ++i) sizes[owners[label][i]] = parts[i];
      DealList(lists[label], sizes);
    }
    if (unowned > 0) out_.left_over.push_back({"no party has their label", unowned});
    return absl::OkStatus();
  }

  absl::Status DealKeys() {
    const std::vector<Indices> lists = ByLabel();
    Indices keys;
    uint64_t few = 0, rest = 0;
    for (uint32_t label = 0; label < labels_; ++label) {
      if (lists[label].size() >= s_.fewest()) {
        keys.push_back(label);
      } else {
        few += lists[label].size();
      }
    }
    if (s_.parties > keys.size()) {
      return Impossible(absl::StrCat("parties is ", s_.parties, ", and ",
                                     Counted(keys.size(), "key"), " with at least ",
                                     Counted(s_.fewest(), "sample"), " are there"));
    }
    if (s_.parties > 0) {
      std::stable_sort(keys.begin(), keys.end(),
                       [&](uint32_t a, uint32_t b) { return lists[a].size() > lists[b].size(); });
      for (size_t i = s_.parties; i < keys.size(); ++i) rest += lists[keys[i]].size();
      keys.resize(s_.parties);
      std::sort(keys.begin(), keys.end());
    }
    out_.parties.resize(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      out_.parties[i] = lists[keys[i]];
      out_.names.push_back(set_.labels[keys[i]]);
    }
    if (few > 0) out_.left_over.push_back({"their key has too few", few});
    if (rest > 0) out_.left_over.push_back({"others are the largest keys", rest});
    return keys.empty() ? Impossible("no key has enough samples") : absl::OkStatus();
  }

  absl::Status DealGroups() {
    const std::vector<Indices> lists = ByLabel();
    Indices keys;
    for (uint32_t label = 0; label < labels_; ++label) {
      if (!lists[label].empty()) keys.push_back(label);
    }
    if (s_.parties > keys.size()) {
      return Impossible(absl::StrCat("parties is ", s_.parties, ", and there are ",
                                     Counted(keys.size(), "key"), " to group"));
    }
    KeyedDraws(s_.seed, "grouped key").Shuffle(&keys);
    const std::vector<uint64_t> sizes = EqualSizes(keys.size(), s_.parties);
    size_t at = 0;
    for (size_t party = 0; party < sizes.size(); ++party) {
      for (uint64_t i = 0; i < sizes[party]; ++i) {
        const Indices& list = lists[keys[at++]];
        out_.parties[party].insert(out_.parties[party].end(), list.begin(), list.end());
      }
    }
    return absl::OkStatus();
  }

  absl::Status DealContinuous() {
    double mean = 0, variance = 0;
    for (const uint32_t sample : pool_) mean += set_.samples[sample].number;
    mean /= static_cast<double>(pool_.size());
    for (const uint32_t sample : pool_) {
      const double off = set_.samples[sample].number - mean;
      variance += off * off;
    }
    const double deviation = std::sqrt(variance / static_cast<double>(pool_.size()));
    if (deviation <= 0 && s_.sigma > 0) {
      return Impossible("scheme 'continuous': all samples have the same number");
    }
    KeyedDraws draws(s_.seed, "continuous");
    std::vector<std::pair<double, uint32_t>> ranked;
    for (const uint32_t sample : pool_) {
      const double standard = deviation > 0 ? (set_.samples[sample].number - mean) / deviation : 0;
      ranked.emplace_back(s_.sigma * standard + (1 - s_.sigma) * draws.Normal(), sample);
    }
    std::sort(ranked.begin(), ranked.end());
    for (size_t i = 0; i < ranked.size(); ++i) pool_[i] = ranked[i].second;
    DealInOrder(EqualSizes(pool_.size(), s_.parties));
    return absl::OkStatus();
  }

  absl::Status CheckFewest() const {
    for (size_t party = 0; party < out_.parties.size(); ++party) {
      if (out_.parties[party].size() >= s_.fewest()) continue;
      return Impossible(absl::StrCat("scheme '", s_.scheme, "' leaves party ", party + 1, " with ",
                                     Counted(out_.parties[party].size(), "sample"), ", and ",
                                     s_.fewest(), " are the fewest: take fewer parties"));
    }
    return absl::OkStatus();
  }

  const PartitionSettings& s_;
  const SampleSet& set_;
  const size_t labels_;
  Indices pool_;  // samples that are dealt
  Assignment out_;
};

}  // namespace

absl::StatusOr<Assignment> AssignSamples(const PartitionSettings& settings, const SampleSet& set) {
  if (set.samples.size() > std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError("[partition] more than 2^32 samples: take a larger unit");
  }
  return SampleDealer(settings, set).Deal();
}

}  // namespace atolld
