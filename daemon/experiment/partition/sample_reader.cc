#include "daemon/experiment/partition/sample_reader.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "daemon/experiment/partition/label_pattern.h"
#include "daemon/experiment/partition/npy_file.h"
#include "membership/history/digest.h"

namespace atolld {
namespace {

constexpr uint64_t kLargestData = uint64_t{1} << 34;  // all of it is held in memory
constexpr int kDeepestFolder = 64;                    // a loop of links ends there
constexpr size_t kLongestLabel = 200;

// GCIDE and its ancestor, Webster's of 1913, give an entry's subject in parentheses, usually
// abbreviated: "(Bot.)", "(Law)".
constexpr char kSubjectPattern[] = R"(\(([A-Z][a-z]+\.?(?: & [A-Z][a-z]+\.?)?)\))";

absl::Status FindFiles(Files& files, const std::string& path, int depth,
                       std::vector<std::string>* found) {
  if (depth > kDeepestFolder) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": folders lie too deep"));
  }
  const absl::StatusOr<std::vector<std::string>> names = files.List(path);
  if (!names.ok()) {
    found->push_back(path);
    return absl::OkStatus();
  }
  for (const std::string& name : *names) {
    if (absl::StartsWith(name, ".")) continue;
    RETURN_IF_ERROR(FindFiles(files, absl::StrCat(path, "/", name), depth + 1, found));
  }
  return absl::OkStatus();
}

bool IsBlank(absl::string_view line) { return absl::StripAsciiWhitespace(line).empty(); }

// Returns the first line of `text` with its line end.
absl::string_view FirstLine(absl::string_view text) {
  const size_t end = text.find('\n');
  return end == absl::string_view::npos ? text : text.substr(0, end + 1);
}

// Returns NAME of a line "NAME:"; empty for any other line.
absl::string_view SpeakerOf(absl::string_view line) {
  absl::string_view name = absl::StripAsciiWhitespace(line);
  if (!absl::ConsumeSuffix(&name, ":") || name.size() > kLongestLabel) return "";
  return absl::ascii_isspace(static_cast<unsigned char>(line[0])) ? "" : name;
}

// -----------------------------------------------------------------------------------------------
// Labels

// Numbers labels in the order in which they come, and finally sorts them.
class LabelBook {
 public:
  uint32_t Of(absl::string_view label) {
    const std::string name(absl::StripAsciiWhitespace(label).substr(0, kLongestLabel));
    const auto [at, is_new] = numbers_.emplace(name, static_cast<uint32_t>(names_.size()));
    if (is_new) names_.push_back(name);
    return at->second;
  }

  // Keeps the most common, if `keep` is above 0, and sorts what is left.
  void Settle(uint32_t keep, SampleSet* set) const {
    std::vector<uint64_t> counts(names_.size());
    for (const Sample& sample : set->samples) ++counts[sample.label];
    std::vector<uint32_t> order(names_.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return std::make_pair(counts[b], names_[a]) < std::make_pair(counts[a], names_[b]);
    });
    std::vector<std::string> kept(names_.size());
    for (size_t rank = 0; rank < order.size(); ++rank) {
      kept[order[rank]] = keep > 0 && rank >= keep ? kOtherLabel : names_[order[rank]];
    }
    set->labels = kept;
    const bool numbers = std::all_of(kept.begin(), kept.end(), [](const std::string& name) {
      int64_t number = 0;
      return absl::SimpleAtoi(name, &number);
    });
    std::sort(set->labels.begin(), set->labels.end(),
              [&](const std::string& a, const std::string& b) {
                int64_t left = 0, right = 0;
                if (!numbers || !absl::SimpleAtoi(a, &left) || !absl::SimpleAtoi(b, &right)) {
                  return a < b;
                }
                return std::make_pair(left, a) < std::make_pair(right, b);
              });
    set->labels.erase(std::unique(set->labels.begin(), set->labels.end()), set->labels.end());
    std::unordered_map<std::string, uint32_t> settled;
    for (uint32_t i = 0; i < set->labels.size(); ++i) settled[set->labels[i]] = i;
    for (Sample& sample : set->samples) sample.label = settled[kept[sample.label]];
  }

 private:
  std::unordered_map<std::string, uint32_t> numbers_;
  std::vector<std::string> names_;
};

// -----------------------------------------------------------------------------------------------
// Reading

class SampleReader {
 public:
  SampleReader(Files& files, const PartitionSettings& settings)
      : files_(files), settings_(settings) {}

  absl::StatusOr<SampleSet> Read() {
    if (!files_.Exists(settings_.path)) {
      return absl::InvalidArgumentError(
          absl::StrCat("[data] path '", settings_.path, "' does not exist"));
    }
    if (files_.Exists(absl::StrCat(settings_.path, "/", kFeaturesFile))) {
      RETURN_IF_ERROR(ReadArrays());
    } else {
      RETURN_IF_ERROR(ReadTexts());
    }
    RETURN_IF_ERROR(CheckLabels());
    if (left_out_ > 0) set_.left_over.push_back({"they have no label", left_out_});
    set_.unlabelled = unlabelled_;
    if (set_.samples.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(settings_.path, ": holds no sample"));
    }
    book_.Settle(settings_.keep_labels, &set_);
    return std::move(set_);
  }

 private:
  absl::Status At(const std::string& file, uint64_t line, absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(file, ":", line, ": ", what));
  }

  absl::Status ReadTexts() {
    std::vector<std::string> paths;
    RETURN_IF_ERROR(FindFiles(files_, settings_.path, 0, &paths));
    const auto is_json = [](const std::string& path) {
      return absl::EndsWith(path, ".jsonl") || absl::EndsWith(path, ".ndjson");
    };
    const bool json = settings_.kind == "jsonl" ||
                      (settings_.kind == "text" && !paths.empty() && is_json(paths[0]));
    set_.form = json ? DataForm::kJsonLines : DataForm::kText;
    RETURN_IF_ERROR(PrepareLabels(json));
    DigestBuilder digest("atoll.partition.data.1");
    for (const std::string& path : paths) {
      if (json != is_json(path) && settings_.kind == "text") {
        return absl::InvalidArgumentError(absl::StrCat(
            path, ": lies among files of another kind; [data] kind 'plain' or 'jsonl' says which"));
      }
      if (set_.bytes.size() >= kLargestData) return TooLarge();
      ASSIGN_OR_RETURN(const std::string text,
                       ReadFile(files_, path, kLargestData - set_.bytes.size()));
      digest.Bytes(absl::StripPrefix(path, settings_.path)).Bytes(text);
      const uint64_t begin = set_.bytes.size();
      set_.bytes += text;
      file_ = path;
      RETURN_IF_ERROR(json ? CutRecords(begin) : CutText(begin));
      // The next file's first sample has a line of its own.
      if (!set_.bytes.empty() && set_.bytes.back() != '\n') set_.bytes.push_back('\n');
    }
    set_.digest = digest.Finish();
    return absl::OkStatus();
  }

  // A label that no sample has is a misspelt one.
  absl::Status CheckLabels() const {
    const uint64_t none = unlabelled_ + left_out_;
    if (none == 0 || none < set_.samples.size() + left_out_) return absl::OkStatus();
    if (key_path_.empty() || !settings_.label_pattern.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          settings_.path, ": none of its ", Counted(none, "sample"), " has a label as [partition] ",
          settings_.label_pattern.empty() ? "label" : "label_pattern", " asks for it"));
    }
    return absl::InvalidArgumentError(absl::StrCat(
        settings_.path, ": none of its ", Counted(none, "record"), " has the field '",
        settings_.label, "' that [partition] label names",
        Suggestion(settings_.label, std::vector<std::string>(fields_.begin(), fields_.end()))));
  }

  absl::Status TooLarge() const {
    return absl::InvalidArgumentError(
        absl::StrCat(settings_.path, ": is more than 16 GiB, and a partition holds all in memory"));
  }

  absl::Status PrepareLabels(bool json) {
    if (json) {
      key_path_ = absl::StrSplit(settings_.label, '.', absl::SkipEmpty());
      text_path_ = absl::StrSplit(settings_.field, '.', absl::SkipEmpty());
      if (settings_.label_pattern.empty()) return absl::OkStatus();
    } else if (!settings_.label.empty()) {
      const std::vector<std::string>& known = TextLabels();
      if (std::find(known.begin(), known.end(), settings_.label) == known.end()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "[partition] label: text has no fields: ",
            UnknownNameMessage("label", settings_.label, known), "; or write label_pattern"));
      }
    }
    const std::string pattern =
        settings_.label == "subject" && !json ? kSubjectPattern : settings_.label_pattern;
    if (pattern.empty()) return absl::OkStatus();
    absl::StatusOr<LabelPattern> compiled = LabelPattern::Compile(pattern);
    if (!compiled.ok()) return Annotate(compiled.status(), "[partition] label_pattern");
    pattern_.emplace(*std::move(compiled));
    return absl::OkStatus();
  }

  // Where the sample after `begin` ends, and where the one after it begins.
  void CutUnits(uint64_t begin, std::vector<std::pair<uint64_t, uint64_t>>* ranges) const {
    const std::string& unit = settings_.unit;
    bool after_blank = true;
    bool open = false;
    for (uint64_t at = begin; at < set_.bytes.size();) {
      const absl::string_view line = FirstLine(absl::string_view(set_.bytes).substr(at));
      const bool blank = IsBlank(line);
      bool begins = unit == "line" || !open;
      if (unit == "paragraph") begins = after_blank;
      const bool indented = absl::ascii_isspace(static_cast<unsigned char>(line[0]));
      if (unit == "entry") begins = !open || (after_blank && !indented);
      if (unit == "speech") begins = !open || (after_blank && !SpeakerOf(line).empty());
      if (!blank && begins) {
        ranges->push_back({at, at + line.size()});
        open = true;
      } else if (!blank) {
        ranges->back().second = at + line.size();
      }
      after_blank = blank;
      at += line.size();
    }
  }

  absl::Status CutText(uint64_t begin) {
    set_.between = settings_.unit == "line" ? "" : "\n";
    std::vector<std::pair<uint64_t, uint64_t>> ranges;
    CutUnits(begin, &ranges);
    for (const auto& [from, to] : ranges) {
      Sample sample;
      sample.begin = from;
      sample.bytes = to - from;
      ASSIGN_OR_RETURN(const absl::string_view label, TextLabelOf(set_.Text(sample)));
      RETURN_IF_ERROR(AddSample(sample, label));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<absl::string_view> TextLabelOf(absl::string_view text) const {
    if (pattern_) {
      absl::StatusOr<absl::string_view> found = pattern_->Find(text);
      if (!found.ok()) return Annotate(found.status(), absl::StrCat(file_, ": label_pattern"));
      return found;
    }
    if (settings_.label == "speaker") return SpeakerOf(FirstLine(text));
    if (settings_.label == "first_letter") {
      const auto letter = std::find_if(text.begin(), text.end(), [](char c) {
        return absl::ascii_isalnum(static_cast<unsigned char>(c)) || (c & 0x80) != 0;
      });
      return letter == text.end() ? absl::string_view()
                                  : LetterAt(text.substr(letter - text.begin()));
    }
    const std::vector<absl::string_view> parts = absl::StrSplit(file_, '/');
    if (settings_.label == "file") return parts.back();
    if (settings_.label == "folder" && parts.size() > 1) return parts[parts.size() - 2];
    return settings_.unit == "speech" && settings_.label.empty() ? SpeakerOf(FirstLine(text))
                                                                 : absl::string_view();
  }

  // One character of UTF-8.
  static absl::string_view LetterAt(absl::string_view text) {
    size_t bytes = 1;
    while (bytes < text.size() && (text[bytes] & 0xC0) == 0x80 && (text[0] & 0x80) != 0) ++bytes;
    return text.substr(0, bytes);
  }

  absl::Status CutRecords(uint64_t begin) {
    uint64_t number = 0;
    for (uint64_t at = begin; at < set_.bytes.size();) {
      Sample sample;
      sample.begin = at;
      const absl::string_view line = FirstLine(absl::string_view(set_.bytes).substr(at));
      sample.bytes = line.size();
      at += line.size();
      ++number;
      if (IsBlank(line)) continue;
      const nlohmann::json record = nlohmann::json::parse(line.begin(), line.end(), nullptr, false);
      if (record.is_discarded()) return At(file_, number, "is not a line of JSON");
      const nlohmann::json* const text = FieldOf(record, text_path_);
      if (text == nullptr || !text->is_string()) {
        return At(file_, number, absl::StrCat("has no text under '", settings_.field, "'"));
      }
      std::string label;
      if (pattern_) {
        const absl::StatusOr<absl::string_view> found =
            pattern_->Find(text->get_ref<const std::string&>());
        if (!found.ok()) return At(file_, number, found.status().message());
        label = std::string(*found);
      } else if (!key_path_.empty()) {
        if (fields_.empty() && record.is_object()) {
          for (const auto& [field, value] : record.items()) fields_.insert(field);
        }
        const nlohmann::json* const value = FieldOf(record, key_path_);
        if (value != nullptr && !value->is_null()) {
          label = value->is_string() ? value->get<std::string>() : value->dump();
        }
      }
      const absl::Status added = AddSample(sample, label);
      if (!added.ok()) return At(file_, number, added.message());
    }
    return absl::OkStatus();
  }

  static const nlohmann::json* FieldOf(const nlohmann::json& record,
                                       const std::vector<std::string>& path) {
    const nlohmann::json* at = &record;
    for (const std::string& key : path) {
      size_t index = 0;
      if (at->is_array() && absl::SimpleAtoi(key, &index) && index < at->size()) {
        at = &(*at)[index];
        continue;
      }
      if (!at->is_object()) return nullptr;
      const auto found = at->find(key);
      if (found == at->end()) return nullptr;
      at = &*found;
    }
    return at;
  }

  // The label may be first_letter's, which is told in capitals.
  absl::Status AddSample(Sample sample, absl::string_view label) {
    std::string name(label);
    const bool letters = set_.form == DataForm::kText && settings_.label == "first_letter";
    if (letters) absl::AsciiStrToUpper(&name);
    const bool labelled = !absl::StripAsciiWhitespace(name).empty();
    const bool wanted = !settings_.label.empty() || !settings_.label_pattern.empty();
    if (wanted && !labelled && settings_.unlabelled == "leave_out") {
      ++left_out_;
      return absl::OkStatus();
    }
    if (wanted && !labelled) ++unlabelled_;
    if (settings_.scheme == "continuous") {
      if (!absl::SimpleAtod(name, &sample.number) || !std::isfinite(sample.number)) {
        return absl::InvalidArgumentError(
            absl::StrCat("scheme 'continuous' needs a number as each sample's label, not '",
                         OneLine(name, kLongestLabel), "'"));
      }
      name = "all";
    }
    sample.label = book_.Of(labelled ? name : wanted ? kNoLabel : "all");
    set_.samples.push_back(sample);
    return absl::OkStatus();
  }

  absl::Status ReadArrays() {
    set_.form = DataForm::kArrays;
    const std::string features = absl::StrCat(settings_.path, "/", kFeaturesFile);
    const std::string labels = absl::StrCat(settings_.path, "/", kLabelsFile);
    ASSIGN_OR_RETURN(std::string rows, ReadFile(files_, features, kLargestData));
    ASSIGN_OR_RETURN(std::string numbers, ReadFile(files_, labels, kLargestData));
    const absl::StatusOr<NpyHeader> row = ReadNpyHeader(rows);
    if (!row.ok()) return Annotate(row.status(), features);
    const absl::StatusOr<NpyHeader> label = ReadNpyHeader(numbers);
    if (!label.ok()) return Annotate(label.status(), labels);
    if (row->shape.empty() || label->shape.size() != 1 || label->rows() != row->rows()) {
      return absl::InvalidArgumentError(
          absl::StrCat(labels, ": must hold one number for each of the ",
                       Counted(row->rows(), "row"), " of ", kFeaturesFile));
    }
    set_.digest = DigestBuilder("atoll.partition.data.1").Bytes(rows).Bytes(numbers).Finish();
    set_.feature_type = row->type;
    set_.row_shape.assign(row->shape.begin() + 1, row->shape.end());
    set_.label_type = label->type;
    set_.label_width = label->width;
    set_.bytes = rows.substr(row->data_at);
    set_.label_bytes = numbers.substr(label->data_at);
    for (uint64_t i = 0; i < row->rows(); ++i) {
      const absl::StatusOr<int64_t> value = NpyWholeNumber(
          label->type, absl::string_view(set_.label_bytes).substr(i * label->width, label->width));
      if (!value.ok()) return Annotate(value.status(), labels);
      Sample sample;
      sample.begin = i * row->row_bytes();
      sample.bytes = row->row_bytes();
      sample.label = book_.Of(absl::StrCat(*value));
      sample.number = static_cast<double>(*value);
      set_.samples.push_back(sample);
    }
    return absl::OkStatus();
  }

  Files& files_;
  const PartitionSettings& settings_;
  std::optional<LabelPattern> pattern_;
  std::vector<std::string> key_path_, text_path_;
  std::string file_;  // being read
  LabelBook book_;
  std::set<std::string> fields_;  // of the first record
  uint64_t unlabelled_ = 0;       // that were asked for a label and are kept without one
  uint64_t left_out_ = 0;
  SampleSet set_;
};

}  // namespace

absl::StatusOr<SampleSet> ReadSamples(Files& files, const PartitionSettings& settings) {
  return SampleReader(files, settings).Read();
}

}  // namespace atolld
