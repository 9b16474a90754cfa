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
#include "membership/history/expert_terms.h"
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

FragmentMap::FragmentMap(const std::vector<FragmentRange>& ranges)
    : FragmentMap(std::vector<std::vector<FragmentRange>>{ranges}, 1) {}

FragmentMap::FragmentMap(const std::vector<std::vector<FragmentRange>>& parts, uint64_t step) {
  for (const std::vector<FragmentRange>& part : parts) {
    elements_ = (elements_ + step - 1) / step * step;
    for (const FragmentRange& range : part) {
      CHECK(range.count > 0);
      by_at_.push_back({range.first, elements_, range.count});
      elements_ += range.count;
    }
  }
  Sort();
  uint64_t end = 0;
  for (const Piece& piece : by_first_) {
    CHECK(piece.first >= end);
    end = piece.first + piece.count;
  }
}

void FragmentMap::Sort() {
  by_first_ = by_at_;
  std::sort(by_first_.begin(), by_first_.end(),
            [](const Piece& a, const Piece& b) { return a.first < b.first; });
}

bool FragmentMap::IsFlat(uint64_t flat) const {
  return elements_ == flat && std::all_of(by_at_.begin(), by_at_.end(),
                                          [](const Piece& one) { return one.first == one.at; });
}

std::vector<FragmentMap::Piece> FragmentMap::Pieces(uint64_t at, uint64_t count) const {
  CHECK(at <= elements_ && count <= elements_ - at);
  const uint64_t end = at + count;
  std::vector<Piece> pieces;
  auto piece = std::lower_bound(
      by_at_.begin(), by_at_.end(), at,
      [](const Piece& one, uint64_t value) { return one.at + one.count <= value; });
  for (; piece != by_at_.end() && piece->at < end; ++piece) {
    const uint64_t begin = std::max(piece->at, at);
    const uint64_t length = std::min(piece->at + piece->count, end) - begin;
    pieces.push_back({piece->first + begin - piece->at, begin, length});
  }
  return pieces;
}

std::vector<FragmentMap::Piece> FragmentMap::Meeting(uint64_t first, uint64_t count) const {
  const uint64_t end = first + count;
  std::vector<Piece> pieces;
  auto piece = std::lower_bound(
      by_first_.begin(), by_first_.end(), first,
      [](const Piece& one, uint64_t value) { return one.first + one.count <= value; });
  for (; piece != by_first_.end() && piece->first < end; ++piece) {
    const uint64_t begin = std::max(piece->first, first);
    const uint64_t length = std::min(piece->first + piece->count, end) - begin;
    pieces.push_back({begin, piece->at + begin - piece->first, length});
  }
  return pieces;
}

void FragmentMap::Remove(uint64_t at, uint64_t count) {
  const uint64_t end = at + count;
  std::vector<Piece> left;
  for (const Piece& piece : by_at_) {
    const uint64_t stop = piece.at + piece.count;
    if (piece.at < at) left.push_back({piece.first, piece.at, std::min(stop, at) - piece.at});
    if (stop <= end) continue;
    const uint64_t begin = std::max(piece.at, end);
    left.push_back({piece.first + begin - piece.at, begin, stop - begin});
  }
  by_at_ = std::move(left);
  Sort();
}

std::vector<float> GatherEntry(const FragmentMap& covers, absl::Span<const float> flat) {
  std::vector<float> entry(covers.elements(), 0.0f);
  for (const FragmentMap::Piece& piece : covers.pieces()) {
    const absl::Span<const float> values = flat.subspan(piece.first, piece.count);
    std::copy(values.begin(), values.end(), entry.begin() + static_cast<std::ptrdiff_t>(piece.at));
  }
  return entry;
}

void ScatterEntry(const FragmentMap& covers, absl::Span<const float> entry,
                  absl::Span<float> flat) {
  CHECK(entry.size() == covers.elements());
  for (const FragmentMap::Piece& piece : covers.pieces()) {
    const absl::Span<const float> values = entry.subspan(piece.at, piece.count);
    std::copy(values.begin(), values.end(), flat.subspan(piece.first, piece.count).begin());
  }
}

absl::StatusOr<Fragments> Fragments::Make(const v1::RunSpec& spec, const v1::Manifest& manifest) {
  Fragments made;
  made.elements_ = manifest.elements();
  if (manifest.elements() == 0) return made;  // an empty manifest, of no run
  if (!HasExperts(spec)) {
    ASSIGN_OR_RETURN(const auto divided, DivideIntoFragments(manifest, FragmentsOf(spec)));
    for (const std::vector<FragmentRange>& ranges : divided) made.maps_.emplace_back(ranges);
    return made;
  }
  ASSIGN_OR_RETURN(ExpertParts parts, DivideIntoExperts(spec.experts(), manifest));
  const uint64_t step = spec.exchange().chunk_elements();
  made.maps_.emplace_back(parts.parts, step);
  auto part_of = std::make_shared<std::vector<uint32_t>>();
  for (uint32_t part = 0; part < parts.parts.size(); ++part) {
    uint64_t values = 0;
    for (const FragmentRange& range : parts.parts[part]) values += range.count;
    part_of->insert(part_of->end(), static_cast<size_t>((values + step - 1) / step), part);
  }
  made.part_of_ = std::move(part_of);
  made.experts_ = std::make_shared<const ExpertParts>(std::move(parts));
  return made;
}

Fragments::Fragments(const v1::RunSpec& spec, const v1::Manifest& manifest) {
  absl::StatusOr<Fragments> made = Make(spec, manifest);
  CHECK_OK(made.status());
  *this = *std::move(made);
}

const FragmentMap& Fragments::Of(uint64_t version) const {
  CHECK(version > 0 && !maps_.empty());
  return maps_[(version - 1) % maps_.size()];
}

ChunkGrid Fragments::Grid(uint64_t version, uint32_t chunk_elements) const {
  return ChunkGrid(Of(version).elements(), chunk_elements, part_of_);
}

std::vector<FragmentRange> FragmentRanges(const v1::RunSpec& spec, const v1::Manifest& manifest,
                                          uint64_t version) {
  std::vector<FragmentRange> ranges;
  const Fragments fragments(spec, manifest);
  for (const FragmentMap::Piece& piece : fragments.Of(version).pieces()) {
    ranges.push_back({piece.first, piece.count});
  }
  return ranges;
}

uint64_t FragmentElements(const v1::RunSpec& spec, const v1::Manifest& manifest, uint64_t version) {
  if (FragmentsOf(spec) == 1 && !HasExperts(spec)) return manifest.elements();
  return Fragments(spec, manifest).Of(version).elements();
}

uint64_t MostEntryElements(const v1::RunSpec& spec, const v1::Manifest& manifest) {
  if (HasExperts(spec)) {
    return CheckFragments(spec, manifest).ok() ? FragmentElements(spec, manifest, 1)
                                               : manifest.elements();
  }
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
  if (HasExperts(spec)) return CheckExperts(spec, manifest);
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
