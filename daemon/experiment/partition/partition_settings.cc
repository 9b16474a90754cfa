#include "daemon/experiment/partition/partition_settings.h"

#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "daemon/config/config_field.h"
#include "daemon/config/toml_value.h"
#include "daemon/env/posix_files.h"

namespace atolld {
namespace {

constexpr uint32_t kMostParties = 1000000;
constexpr uint32_t kMostMinSamples = 1000000000;
constexpr uint32_t kDirichletFewest = 10;  // as flwr-datasets has it
constexpr uint64_t kLargestExperimentFile = uint64_t{1} << 20;
constexpr uint64_t kLargestSeed = uint64_t{1} << 53;  // as [run] seed

struct PartitionKey {
  std::string name;
  FieldValue value;
};

std::vector<PartitionKey> PartitionKeys(PartitionSettings& s) {
  return {
      {"scheme", OneOf(&s.scheme, PartitionSchemes())},
      {"parties", WholeNumber{&s.parties, 1, kMostParties}},
      {"unit", OneOf(&s.unit, {"line", "paragraph", "entry", "speech", "document"})},
      {"label", Text{&s.label, TextForm::kPlain, true}},
      {"label_pattern", Text{&s.label_pattern, TextForm::kPlain, true}},
      {"unlabelled", OneOf(&s.unlabelled, {"keep", "leave_out"})},
      {"keep_labels", WholeNumber{&s.keep_labels, 0, kMostParties}},
      {"alpha", RealNumber{&s.alpha, 0, 1e6, Bounds::kOpenBelow}},
      {"balance", Flag{&s.balance}},
      {"sizes", OneOf(&s.sizes, {"equal", "linear", "square", "exponential", "log_normal"})},
      {"classes", WholeNumber{&s.classes, 1, kMostParties}},
      {"shards", WholeNumber{&s.shards, 1, kMostParties}},
      {"sigma", RealNumber{&s.sigma, 0, 20}},
      {"min_samples", WholeNumber{&s.min_samples, 1, kMostMinSamples}},
      {"seed", WholeNumber{&s.seed, 0, kLargestSeed}},
      {"validation", RealNumber{&s.validation, 0, 0.5}},
  };
}

absl::Status WrongAt(const std::string& place, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(place, ": ", what));
}

absl::Status AssignAt(const FieldValue& value, absl::string_view name, const SectionValue& said) {
  const absl::Status status = Assign(value, name, said.value);
  return status.ok() ? status : Annotate(status, said.place);
}

// Reads only these keys, because the section has other owners too.
absl::Status AssignSome(const FileSection& section, const std::string& name,
                        const std::vector<PartitionKey>& keys) {
  for (const PartitionKey& key : keys) {
    const auto said = section.values.find(key.name);
    if (said == section.values.end()) continue;
    RETURN_IF_ERROR(AssignAt(key.value, absl::StrCat("[", name, "] ", key.name), said->second));
  }
  return absl::OkStatus();
}

bool IsOneOf(const std::string& name, const std::vector<std::string>& names) {
  return absl::c_linear_search(names, name);
}

// Returns the schemes that a key belongs to; empty if it belongs to all.
std::vector<std::string> SchemesOf(const std::string& key) {
  if (key == "alpha") return {"dirichlet", "inner_dirichlet"};
  if (key == "balance") return {"dirichlet"};
  if (key == "sizes") return {"inner_dirichlet"};
  if (key == "classes") return {"pathological"};
  if (key == "shards") return {"shards"};
  if (key == "sigma") return {"log_normal", "inner_dirichlet", "continuous"};
  return {};
}

class SettingsCheck {
 public:
  SettingsCheck(const PartitionSections& sections, const PartitionSettings& settings)
      : sections_(sections), s_(settings) {}

  absl::Status Check() const {
    if (s_.path.empty()) {
      return WrongAt(sections_.data.place, "[data] path is missing: the file or folder to part");
    }
    if (!IsOneOf(s_.kind, {"text", "plain", "jsonl"})) {
      return Wrong(sections_.data, "kind",
                   absl::StrCat("[data] kind is '", s_.kind,
                                "': a partition needs samples, which text, lines of JSON and "
                                "folders of arrays have"));
    }
    for (const auto& [key, said] : sections_.partition.values) {
      const std::vector<std::string> schemes = SchemesOf(key);
      if (schemes.empty() || IsOneOf(s_.scheme, schemes)) continue;
      return WrongAt(said.place, absl::StrCat("[partition] ", key, " has no meaning with scheme '",
                                              s_.scheme, "'"));
    }
    RETURN_IF_ERROR(CheckLabels());
    if (s_.parties == 0 && s_.scheme != "key") {
      return WrongAt(sections_.partition.place,
                     "[partition] parties is missing: how many there are");
    }
    if (s_.scheme == "continuous" && s_.sigma > 1) {
      return Wrong(
          sections_.partition, "sigma",
          "[partition] sigma is from 0 (by chance) to 1 (in order) with scheme 'continuous'");
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status Wrong(const FileSection& section, const std::string& key,
                            absl::string_view what) {
    const auto said = section.values.find(key);
    return WrongAt(said == section.values.end() ? section.place : said->second.place, what);
  }

  absl::Status CheckLabels() const {
    const FileSection& partition = sections_.partition;
    if (!s_.label.empty() && !s_.label_pattern.empty()) {
      return Wrong(partition, "label_pattern",
                   "[partition] label_pattern is in place of label; leave one of them out");
    }
    if (s_.label == "speaker" && s_.unit != "speech") {
      return Wrong(partition, "label",
                   "[partition] label 'speaker' needs unit = \"speech\": one sample a speech");
    }
    return absl::OkStatus();
  }

  const PartitionSections& sections_;
  const PartitionSettings& s_;
};

// -----------------------------------------------------------------------------------------------
// The file

std::string PlaceOfNode(const std::string& path, const toml::node& node) {
  return absl::StrCat(path, ":", node.source().begin.line);
}

absl::Status ReadFileSection(const toml::table& document, const std::string& path,
                             const std::string& name, FileSection* section) {
  section->place = absl::StrCat(path, ":1");
  const toml::node* const node = document.get(name);
  if (node == nullptr) return absl::OkStatus();
  section->place = PlaceOfNode(path, *node);
  const toml::table* const table = node->as_table();
  if (table == nullptr) {
    return WrongAt(section->place, absl::StrCat("'", name, "' is a section: write [", name, "]"));
  }
  for (const auto& [key, value] : *table) {
    section->values[std::string(key.str())] = {RawOf(value), PlaceOfNode(path, value)};
  }
  return absl::OkStatus();
}

}  // namespace

uint32_t PartitionSettings::fewest() const {
  if (min_samples > 0) return min_samples;
  return scheme == "dirichlet" ? kDirichletFewest : 1;
}

std::string PartitionSettings::Text() const {
  PartitionSettings copy = *this;
  copy.min_samples = fewest();
  std::string text = absl::StrCat("kind = ", kind, "\nfield = ", field, "\n");
  for (const PartitionKey& key : PartitionKeys(copy)) {
    absl::StrAppend(&text, key.name, " = ", FormatValue(key.value), "\n");
  }
  return text;
}

const std::vector<std::string>& PartitionSchemes() {
  static const auto* const kSchemes =
      new std::vector<std::string>{"iid",          "linear",    "square",          "exponential",
                                   "log_normal",   "dirichlet", "inner_dirichlet", "shards",
                                   "pathological", "key",       "grouped_key",     "continuous"};
  return *kSchemes;
}

const std::vector<std::string>& TextLabels() {
  static const auto* const kLabels =
      new std::vector<std::string>{"speaker", "first_letter", "file", "folder", "subject"};
  return *kLabels;
}

absl::StatusOr<PartitionSettings> ParsePartition(const PartitionSections& sections) {
  PartitionSettings settings;
  RETURN_IF_ERROR(AssignSome(sections.experiment, "experiment",
                             {{"name", Text{&settings.name, TextForm::kPlain, true}},
                              {"seed", WholeNumber{&settings.seed, 0, kLargestSeed}}}));
  RETURN_IF_ERROR(AssignSome(sections.data, "data",
                             {{"path", Text{&settings.path, TextForm::kPath, true}},
                              {"kind", Text{&settings.kind, TextForm::kPlain, true}},
                              {"field", Text{&settings.field, TextForm::kPlain, true}}}));
  const std::vector<PartitionKey> keys = PartitionKeys(settings);
  std::vector<std::string> names;
  for (const PartitionKey& key : keys) names.push_back(key.name);
  for (const auto& [name, said] : sections.partition.values) {
    const auto key = absl::c_find_if(
        keys, [wanted = &name](const PartitionKey& one) { return one.name == *wanted; });
    if (key == keys.end()) {
      return WrongAt(said.place, absl::StrCat("unknown key '", name, "' in [partition]",
                                              Suggestion(name, names)));
    }
    RETURN_IF_ERROR(AssignAt(key->value, absl::StrCat("[partition] ", name), said));
  }
  if (settings.kind.empty()) settings.kind = "text";
  if (settings.field.empty()) settings.field = "text";
  RETURN_IF_ERROR(SettingsCheck(sections, settings).Check());
  settings.path =
      (std::filesystem::path(sections.folder) / settings.path).lexically_normal().string();
  return settings;
}

absl::StatusOr<PartitionSettings> LoadPartition(const std::string& path) {
  PosixFiles files;
  const std::filesystem::path whole = std::filesystem::absolute(path);
  absl::StatusOr<std::string> text = ReadFile(files, whole.string(), kLargestExperimentFile);
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  toml::table document;
  try {
    document = toml::parse(std::string_view(*text), path);
  } catch (const toml::parse_error& error) {
    return WrongAt(absl::StrCat(path, ":", error.source().begin.line),
                   OneLine({error.description().data(), error.description().size()}, 200));
  }
  PartitionSections sections;
  sections.folder = whole.parent_path().string();
  RETURN_IF_ERROR(ReadFileSection(document, path, "data", &sections.data));
  RETURN_IF_ERROR(ReadFileSection(document, path, "partition", &sections.partition));
  RETURN_IF_ERROR(ReadFileSection(document, path, "experiment", &sections.experiment));
  if (document.get("partition") == nullptr) {
    return WrongAt(absl::StrCat(path, ":1"),
                   "there is no [partition], which says who gets what; see docs/experiments.md");
  }
  return ParsePartition(sections);
}

}  // namespace atolld
