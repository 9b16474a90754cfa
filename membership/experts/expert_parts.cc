#include "membership/experts/expert_parts.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/base/bitmap.h"

namespace atolld {
namespace {

uint64_t ValuesOf(const v1::Tensor& tensor) {
  uint64_t values = 1;
  for (const uint64_t dimension : tensor.shape()) values *= dimension;
  return values;
}

void Append(const PartRange& range, std::vector<PartRange>* ranges) {
  if (!ranges->empty() && ranges->back().first + ranges->back().count == range.first) {
    ranges->back().count += range.count;
  } else {
    ranges->push_back(range);
  }
}

// Returns true if `text` matches `pattern`, in which "*" stands for any characters. What a star
// stands for need only grow while no later star has been reached, so going back to the last one
// suffices, and the time is at most the product of the two lengths.
bool Matches(absl::string_view pattern, absl::string_view text) {
  size_t at = 0, read = 0;
  size_t star = absl::string_view::npos;  // the last star so far
  size_t covered = 0;                     // the end of what it stands for
  while (read < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      covered = read;
    } else if (at < pattern.size() && pattern[at] == text[read]) {
      ++at;
      ++read;
    } else if (star != absl::string_view::npos) {
      at = star + 1;
      read = ++covered;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == absl::string_view::npos;
}

}  // namespace

bool HasExperts(const v1::RunSpec& spec) { return spec.experts().owners() > 0 || HasSlices(spec); }

bool HasSlices(const v1::RunSpec& spec) { return spec.model().lora_slice() > 0; }

absl::Status CheckExpertPattern(absl::string_view pattern) {
  if (pattern.size() > kLongestExpertPattern) {
    return absl::InvalidArgumentError(
        absl::StrCat("[experts] tensors: a pattern has ", pattern.size(),
                     " characters; it must have at most ", kLongestExpertPattern));
  }
  if (std::count(pattern.begin(), pattern.end(), '#') == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("[experts] tensors: \"", pattern,
                                                 "\" must have one #, which stands for the "
                                                 "number of the expert, as in \"*.experts.#.*\""));
}

absl::Status CheckExpertPatternCount(size_t patterns) {
  if (patterns <= kMostExpertPatterns) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "[experts] tensors has ", patterns, " patterns; it must have at most ", kMostExpertPatterns));
}

bool MatchesExpert(absl::string_view pattern, absl::string_view name, uint32_t* number) {
  const size_t mark = pattern.find('#');
  if (mark == absl::string_view::npos) return false;
  for (size_t begin = 0; begin < name.size(); ++begin) {
    size_t end = begin;
    while (end < name.size() && absl::ascii_isdigit(name[end])) ++end;
    if (end == begin) continue;
    const bool whole = begin == 0 || !absl::ascii_isdigit(name[begin - 1]);
    if (whole && absl::SimpleAtoi(name.substr(begin, end - begin), number) &&
        Matches(pattern.substr(0, mark), name.substr(0, begin)) &&
        Matches(pattern.substr(mark + 1), name.substr(end))) {
      return true;
    }
  }
  return false;
}

absl::StatusOr<ExpertParts> DivideIntoExperts(const v1::ExpertsSpec& spec,
                                              const v1::Manifest& manifest) {
  std::vector<bool> matched(static_cast<size_t>(spec.tensors_size()), false);
  std::map<uint32_t, std::vector<PartRange>> experts;
  std::vector<PartRange> shared;
  const absl::Status few = CheckExpertPatternCount(static_cast<size_t>(spec.tensors_size()));
  if (!few.ok()) return few;
  for (const std::string& pattern : spec.tensors()) {
    const absl::Status sound = CheckExpertPattern(pattern);
    if (!sound.ok()) return sound;
  }
  for (const v1::Tensor& tensor : manifest.tensors()) {
    const PartRange range{tensor.offset(), ValuesOf(tensor)};
    std::vector<PartRange>* part = &shared;
    for (int i = 0; i < spec.tensors_size(); ++i) {
      uint32_t number = 0;
      if (!MatchesExpert(spec.tensors(i), tensor.name(), &number)) continue;
      matched[static_cast<size_t>(i)] = true;
      part = &experts[number];
      break;
    }
    Append(range, part);
  }
  for (int i = 0; i < spec.tensors_size(); ++i) {
    if (matched[static_cast<size_t>(i)]) continue;
    return absl::InvalidArgumentError(absl::StrCat("[experts] tensors: \"", spec.tensors(i),
                                                   "\" matches no tensor of the model"));
  }
  if (experts.size() < 2 || experts.size() > kMostExperts) {
    return absl::InvalidArgumentError(absl::StrCat("[experts]: the model has ", experts.size(),
                                                   " experts; 2 to ", kMostExperts,
                                                   " can be owned"));
  }
  if (shared.empty() && spec.owners() > 0) {
    return absl::InvalidArgumentError("[experts] tensors: every tensor is an expert's");
  }
  ExpertParts divided;
  divided.parts.push_back(std::move(shared));
  for (auto& [number, ranges] : experts) {
    divided.numbers.push_back(number);
    divided.parts.push_back(std::move(ranges));
  }
  return divided;
}

bool ValidOwned(absl::string_view owned, uint32_t experts) {
  if (owned.size() != BitmapBytes(experts)) return false;
  return experts % 8 == 0 || (static_cast<uint8_t>(owned.back()) >> (experts % 8)) == 0;
}

std::string OwnsNothing(uint32_t experts) { return std::string(BitmapBytes(experts), '\0'); }

std::string OwnsAll(uint32_t experts) { return OwnsFirst(experts, experts); }

std::string OwnsFirst(uint32_t first, uint32_t experts) {
  std::string owned = OwnsNothing(experts);
  for (uint32_t i = 0; i < std::min(first, experts); ++i) SetBit(&owned, i);
  return owned;
}

bool Covers(absl::string_view owned, uint32_t part) {
  return owned.empty() || part == 0 || BitAt(owned, part - 1);
}

std::vector<PartRange> FrozenRanges(const ExpertParts& parts, absl::string_view owned) {
  std::vector<PartRange> all;
  for (uint32_t part = 1; part < parts.parts.size(); ++part) {
    if (Covers(owned, part)) continue;
    all.insert(all.end(), parts.parts[part].begin(), parts.parts[part].end());
  }
  std::sort(all.begin(), all.end(),
            [](const PartRange& a, const PartRange& b) { return a.first < b.first; });
  std::vector<PartRange> frozen;
  for (const PartRange& range : all) Append(range, &frozen);
  return frozen;
}

std::string NameOwned(const std::vector<uint32_t>& numbers, absl::string_view owned) {
  std::vector<std::string> names;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (!BitAt(owned, i)) continue;
    size_t last = i;
    while (last + 1 < numbers.size() && BitAt(owned, last + 1) &&
           numbers[last + 1] == numbers[last] + 1) {
      ++last;
    }
    names.push_back(last == i ? absl::StrCat(numbers[i])
                              : absl::StrCat(numbers[i], "-", numbers[last]));
    i = last;
  }
  return names.empty() ? "none" : absl::StrJoin(names, ", ");
}

}  // namespace atolld
