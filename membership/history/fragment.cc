#include "membership/history/fragment.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compression/base/check.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "membership/history/run_codecs.h"

namespace atolld {
namespace {

// A tensor, or the rest of it. Ordered by size; equal ones keep their order.
struct Part {
  uint64_t count = 0;
  uint64_t first = 0;

  bool operator<(const Part& other) const {
    return count != other.count ? count < other.count : first < other.first;
  }
};

// One fragment while it is being filled.
struct Pile {
  std::set<Part> parts;
  uint64_t elements = 0;

  void Add(const Part& part) {
    parts.insert(part);
    elements += part.count;
  }
  void Take(std::set<Part>::iterator part) {
    elements -= part->count;
    parts.erase(part);
  }
};

bool IsNumber(absl::string_view word) {
  return !word.empty() &&
         std::all_of(word.begin(), word.end(), [](char c) { return absl::ascii_isdigit(c) != 0; });
}

// Returns everything up to the first whole number between dots, or the whole name if there is none.
absl::string_view LayerOf(absl::string_view name) {
  size_t begin = 0;
  while (begin < name.size()) {
    const size_t dot = std::min(name.find('.', begin), name.size());
    if (IsNumber(name.substr(begin, dot - begin))) return name.substr(0, dot);
    begin = dot + 1;
  }
  return name;
}

uint64_t SizeOf(const v1::Tensor& tensor) {
  uint64_t size = 1;
  for (const uint64_t dimension : tensor.shape()) size *= dimension;
  return size;
}

std::vector<Pile> DealLayers(const v1::Manifest& manifest, uint32_t fragments) {
  std::vector<Pile> piles(fragments);
  std::map<absl::string_view, size_t> layers;
  for (const v1::Tensor& tensor : manifest.tensors()) {
    const size_t layer = layers.try_emplace(LayerOf(tensor.name()), layers.size()).first->second;
    piles[layer % fragments].Add({SizeOf(tensor), tensor.offset()});
  }
  return piles;
}

// Moves a part that brings both piles nearer to the mean, and neither past it, so a pile that gives
// never takes. Returns false if there is no such part.
bool MoveOne(uint64_t mean, Pile* from, Pile* to) {
  if (from->elements <= mean || to->elements >= mean) return false;
  const uint64_t wanted = std::min(from->elements - mean, mean - to->elements);
  // The first of the largest parts that are not larger than wanted.
  auto whole = from->parts.lower_bound({wanted + 1, 0});
  if (whole != from->parts.begin()) {
    whole = from->parts.lower_bound({std::prev(whole)->count, 0});
    to->Add(*whole);
    from->Take(whole);
    return true;
  }
  const uint64_t piece = wanted / kFragmentStep * kFragmentStep;
  if (piece == 0) return false;
  // All parts are larger than wanted.
  const auto largest = from->parts.lower_bound({std::prev(from->parts.end())->count, 0});
  const Part cut = *largest;
  from->Take(largest);
  from->Add({cut.count - piece, cut.first});
  to->Add({piece, cut.first + cut.count - piece});
  return true;
}

void Balance(uint64_t mean, std::vector<Pile>* piles) {
  const auto smaller = [](const Pile& a, const Pile& b) { return a.elements < b.elements; };
  while (true) {
    const auto largest = std::max_element(piles->begin(), piles->end(), smaller);
    const auto smallest = std::min_element(piles->begin(), piles->end(), smaller);
    if (smallest->elements > 0 && largest->elements <= mean + mean / kFragmentSlack) return;
    if (!MoveOne(mean, &*largest, &*smallest)) return;
  }
}

std::vector<FragmentRange> RangesOf(const Pile& pile) {
  std::vector<FragmentRange> ranges;
  for (const Part& part : pile.parts) ranges.push_back({part.first, part.count});
  std::sort(ranges.begin(), ranges.end(),
            [](const FragmentRange& a, const FragmentRange& b) { return a.first < b.first; });
  std::vector<FragmentRange> joined;
  for (const FragmentRange& range : ranges) {
    if (!joined.empty() && joined.back().first + joined.back().count == range.first) {
      joined.back().count += range.count;
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

// Returns an empty vector if this many fragments cannot be made.
std::vector<std::vector<FragmentRange>> Divide(const v1::Manifest& manifest, uint32_t fragments) {
  std::vector<Pile> piles = DealLayers(manifest, fragments);
  Balance(manifest.elements() / fragments, &piles);
  std::vector<std::vector<FragmentRange>> divided;
  for (const Pile& pile : piles) {
    if (pile.elements == 0) return {};
    divided.push_back(RangesOf(pile));
  }
  return divided;
}

}  // namespace

uint32_t FragmentsOf(const v1::RunSpec& spec) {
  if (spec.mode().kind() != "streaming") return 1;
  return std::max<uint32_t>(1, spec.mode().fragments());
}

uint32_t FragmentOf(const v1::RunSpec& spec, uint64_t version) {
  CHECK(version > 0);
  return static_cast<uint32_t>((version - 1) % FragmentsOf(spec));
}

absl::StatusOr<std::vector<std::vector<FragmentRange>>> DivideIntoFragments(
    const v1::Manifest& manifest, uint32_t fragments) {
  if (fragments == 0 || fragments > kMostFragments) {
    return absl::InvalidArgumentError(
        absl::StrCat(fragments, " fragments; 1 to ", kMostFragments, " are allowed"));
  }
  if (fragments == 1) {
    return std::vector<std::vector<FragmentRange>>{{{0, manifest.elements()}}};
  }
  std::vector<std::vector<FragmentRange>> divided = Divide(manifest, fragments);
  if (!divided.empty()) return divided;
  uint32_t possible = fragments - 1;
  while (possible > 1 && Divide(manifest, possible).empty()) --possible;
  return absl::InvalidArgumentError(absl::StrCat(
      "[mode] fragments = ", fragments, " is more than can be made of a model of ",
      Counted(manifest.tensors_size(), "tensor"), " with ", Counted(manifest.elements(), "value"),
      ": tensors are cut at multiples of ", kFragmentStep, " values alone; ", possible, " can"));
}

FragmentMap::FragmentMap(std::vector<FragmentRange> ranges) : ranges_(std::move(ranges)) {
  uint64_t end = 0;
  for (const FragmentRange& range : ranges_) {
    CHECK(range.count > 0 && range.first >= end);
    starts_.push_back(elements_);
    elements_ += range.count;
    end = range.first + range.count;
  }
}

std::vector<FragmentMap::Piece> FragmentMap::Pieces(uint64_t at, uint64_t count) const {
  CHECK(at <= elements_ && count <= elements_ - at);
  std::vector<Piece> pieces;
  if (count == 0) return pieces;
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), at);
  for (auto i = static_cast<size_t>(after - starts_.begin() - 1); count > 0; ++i) {
    const uint64_t inside = at - starts_[i];
    const uint64_t length = std::min(count, ranges_[i].count - inside);
    pieces.push_back({ranges_[i].first + inside, at, length});
    at += length;
    count -= length;
  }
  return pieces;
}

std::vector<FragmentMap::Piece> FragmentMap::Meeting(uint64_t first, uint64_t count) const {
  const uint64_t end = first + count;
  std::vector<Piece> pieces;
  auto range = std::lower_bound(
      ranges_.begin(), ranges_.end(), first,
      [](const FragmentRange& one, uint64_t value) { return one.first + one.count <= value; });
  for (; range != ranges_.end() && range->first < end; ++range) {
    const uint64_t begin = std::max(range->first, first);
    const uint64_t length = std::min(range->first + range->count, end) - begin;
    const auto index = static_cast<size_t>(range - ranges_.begin());
    pieces.push_back({begin, starts_[index] + begin - range->first, length});
  }
  return pieces;
}

std::vector<float> GatherEntry(const FragmentMap& covers, absl::Span<const float> flat) {
  std::vector<float> entry;
  entry.reserve(covers.elements());
  for (const FragmentRange& range : covers.ranges()) {
    const absl::Span<const float> part = flat.subspan(range.first, range.count);
    entry.insert(entry.end(), part.begin(), part.end());
  }
  return entry;
}

void ScatterEntry(const FragmentMap& covers, absl::Span<const float> entry,
                  absl::Span<float> flat) {
  CHECK(entry.size() == covers.elements());
  size_t at = 0;
  for (const FragmentRange& range : covers.ranges()) {
    const absl::Span<const float> part = entry.subspan(at, range.count);
    std::copy(part.begin(), part.end(), flat.subspan(range.first, range.count).begin());
    at += range.count;
  }
}

Fragments::Fragments(const v1::RunSpec& spec, const v1::Manifest& manifest) {
  if (manifest.elements() == 0) return;  // an empty manifest, of no run
  absl::StatusOr<std::vector<std::vector<FragmentRange>>> divided =
      DivideIntoFragments(manifest, FragmentsOf(spec));
  CHECK_OK(divided.status());
  for (std::vector<FragmentRange>& ranges : *divided) maps_.emplace_back(std::move(ranges));
}

const FragmentMap& Fragments::Of(uint64_t version) const {
  CHECK(version > 0 && !maps_.empty());
  return maps_[(version - 1) % maps_.size()];
}

uint64_t Fragments::elements() const {
  uint64_t elements = 0;
  for (const FragmentMap& map : maps_) elements += map.elements();
  return elements;
}

std::vector<FragmentRange> FragmentRanges(const v1::RunSpec& spec, const v1::Manifest& manifest,
                                          uint64_t version) {
  return Fragments(spec, manifest).Of(version).ranges();
}

uint64_t FragmentElements(const v1::RunSpec& spec, const v1::Manifest& manifest, uint64_t version) {
  if (FragmentsOf(spec) == 1) return manifest.elements();
  return Fragments(spec, manifest).Of(version).elements();
}

uint64_t MostEntryElements(const v1::RunSpec& spec, const v1::Manifest& manifest) {
  if (FragmentsOf(spec) == 1) return manifest.elements();
  const auto divided = DivideIntoFragments(manifest, FragmentsOf(spec));
  if (!divided.ok()) return manifest.elements();
  uint64_t most = 0;
  for (const std::vector<FragmentRange>& ranges : *divided) {
    most = std::max(most, FragmentMap(ranges).elements());
  }
  return most;
}

absl::Status CheckFragments(const v1::RunSpec& spec, const v1::Manifest& manifest) {
  const uint32_t fragments = FragmentsOf(spec);
  if (fragments == 1) return absl::OkStatus();
  RETURN_IF_ERROR(DivideIntoFragments(manifest, fragments).status());
  const auto refuse = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " has no meaning with [mode] fragments = ", fragments));
  };
  if (spec.outer().rule() == "delayed_nesterov") {
    return refuse("a count of updates, which are of other values from entry to entry,");
  }
  if (spec.inner().control_variates()) return refuse("a control variate, which is of all values,");
  if (spec.privacy().masked()) return refuse("a mask, whose steps follow from the mean before,");
  if (spec.privacy().clip_bits() != 0) return refuse("noise for an update's whole length");
  ASSIGN_OR_RETURN(const AggregationRule rule, RuleOf(spec.exchange()));
  if (rule.has_centre()) return refuse("a centre, which is the mean before and of other values,");
  return absl::OkStatus();
}

}  // namespace atolld
