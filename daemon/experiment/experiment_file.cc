#include "daemon/experiment/experiment_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "daemon/config/config.h"
#include "daemon/config/config_table.h"
#include "daemon/config/toml_value.h"
#include "daemon/experiment/experiment_sections.h"

namespace atolld {
namespace {

constexpr size_t kMostFileBytes = 1 << 20;
constexpr size_t kMostSeeds = 1000;
constexpr size_t kMostSettings = 1000;
constexpr char kDefaultLink[] = "default";

absl::Status Wrong(const std::string& place, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(place, ": ", what));
}

// The values to try for one key of the grid. There is at least one.
using GridAxis = std::vector<SettingChange>;

// Returns "alpha", or "outer.rule" if another axis has a key of that name.
std::string ShortName(const SettingChange& change, const std::vector<GridAxis>& axes) {
  size_t same = 0;
  for (const GridAxis& axis : axes) same += axis.front().key == change.key ? 1 : 0;
  return same > 1 ? change.Name() : change.key;
}

// Returns a setting for each pair of a named setting and a combination of the grid. If there are no
// named settings and no axes, returns one setting with the name `base` that changes nothing. The
// last axis varies fastest. If a named setting and the grid both change a key, the grid's value
// applies. Fails with INVALID_ARGUMENT if two settings have the same name or if there are more than
// kMostSettings; the message does not give the place.
absl::StatusOr<std::vector<ExperimentSetting>> ExpandSettings(
    const std::vector<ExperimentSetting>& named, const std::vector<GridAxis>& axes,
    const std::string& base) {
  std::vector<ExperimentSetting> settings = named;
  if (settings.empty()) settings.push_back({axes.empty() ? base : "", {}});
  for (const GridAxis& axis : axes) {
    std::vector<ExperimentSetting> wider;
    for (const ExperimentSetting& setting : settings) {
      for (const SettingChange& change : axis) {
        ExperimentSetting one = setting;
        absl::StrAppend(&one.name, one.name.empty() ? "" : ", ", ShortName(change, axes), " = ",
                        change.ValueText());
        one.changes.push_back(change);
        wider.push_back(std::move(one));
      }
      if (wider.size() > kMostSettings) {
        return absl::InvalidArgumentError(absl::StrCat("the grid has more than ", kMostSettings,
                                                       " combinations; leave some values out"));
      }
    }
    settings = std::move(wider);
  }
  std::set<std::string> names;
  for (const ExperimentSetting& setting : settings) {
    if (names.insert(setting.name).second) continue;
    return absl::InvalidArgumentError(absl::StrCat("two settings are called '", setting.name,
                                                   "'; give each a name or a value of its own"));
  }
  return settings;
}

// Reads one file. The document must outlive the reader.
class FileReader {
 public:
  FileReader(const toml::table& document, std::string origin, Experiment* experiment)
      : document_(document), origin_(std::move(origin)), experiment_(*experiment) {}

  absl::Status Read() {
    RETURN_IF_ERROR(CheckSections());
    RETURN_IF_ERROR(ReadExperimentSection());
    RETURN_IF_ERROR(ReadFaults());
    RETURN_IF_ERROR(ReadRamp());
    RETURN_IF_ERROR(ReadPartition());
    RETURN_IF_ERROR(ReadLinks());
    RETURN_IF_ERROR(ReadSettings());
    BlankOwnSections();
    return absl::OkStatus();
  }

 private:
  std::string Place(const toml::node& node) const {
    return absl::StrCat(origin_, ":", std::max<uint32_t>(node.source().begin.line, 1));
  }

  // A section that is misspelt is a run's as little as an experiment's.
  absl::Status CheckSections() const {
    Config config;
    std::vector<std::string> sections = ExperimentSections();
    for (const ConfigSection& section : ConfigSections(config)) sections.push_back(section.name);
    for (const auto& [name, node] : document_) {
      const std::string section(name.str());
      if (std::find(sections.begin(), sections.end(), section) != sections.end()) continue;
      if (!node.is_table()) continue;  // the run's reader says what is wrong
      return Wrong(Place(node),
                   absl::StrCat("unknown section [", section, "]", Suggestion(section, sections)));
    }
    return absl::OkStatus();
  }

  // The table of a section; null without one.
  absl::StatusOr<const toml::table*> Section(const char* name) const {
    const toml::node* node = document_.get(name);
    if (node == nullptr) return nullptr;
    if (node->is_table()) return node->as_table();
    return Wrong(Place(*node), absl::StrCat("'", name, "' must be a section: [", name, "]"));
  }

  SettingChange ChangeOf(const std::string& section, const std::string& key,
                         const toml::node& node) const {
    if (section == "experiment" && key == "speeds" && node.is_array()) {
      return {section, key, SpeedsText(*node.as_array()), Place(node)};
    }
    return {section, key, RawOf(node), Place(node)};
  }

  // The list as `atoll local --speeds` takes it; PlanRun checks what stands there.
  static std::string SpeedsText(const toml::array& speeds) {
    std::vector<std::string> parts;
    for (const toml::node& one : speeds) {
      const bool number = one.is_number();
      parts.push_back(number ? absl::StrFormat("%.15g", one.value_or(0.0))
                             : one.value_or<std::string>("something that is not a number"));
    }
    return absl::StrJoin(parts, ",");
  }

  absl::Status ReadExperimentSection() {
    ASSIGN_OR_RETURN(const toml::table* const section, Section("experiment"));
    if (section == nullptr) {
      return Wrong(origin_ + ":1",
                   "there is no [experiment]; `atoll local` runs a file that is a run alone");
    }
    std::vector<ExperimentField> fields = FileFields(experiment_);
    for (ExperimentField& field : SettingFields(experiment_.keys)) fields.push_back(field);
    fields.push_back({"experiment", "name", Text{&experiment_.name, TextForm::kPlain}});
    // Only so that a misspelling is told of it.
    uint64_t seeds = 0;
    fields.push_back({"experiment", "seeds", WholeNumber{&seeds, 0, 0}});
    for (const auto& [name, node] : *section) {
      const std::string key(name.str());
      if (key == "seeds") {
        RETURN_IF_ERROR(ReadSeeds(node));
      } else if (key == "seed") {
        RETURN_IF_ERROR(ReadSeed(node, section->contains("seeds")));
      } else {
        RETURN_IF_ERROR(AssignField(fields, ChangeOf("experiment", key, node)));
      }
    }
    return absl::OkStatus();
  }

  // The only one.
  absl::Status ReadSeed(const toml::node& node, bool has_seeds) {
    if (has_seeds) {
      return Wrong(Place(node), "[experiment] seed is in place of seeds; leave one of them out");
    }
    uint64_t seed = 0;
    constexpr uint64_t kMostSeed = std::numeric_limits<int64_t>::max();
    RETURN_IF_ERROR(AssignField({{"experiment", "seed", WholeNumber{&seed, 0, kMostSeed}}},
                                ChangeOf("experiment", "seed", node)));
    experiment_.seeds = {seed};
    return absl::OkStatus();
  }

  absl::Status ReadSeeds(const toml::node& node) {
    const toml::array* const list = node.as_array();
    const absl::Status wrong =
        Wrong(Place(node), absl::StrCat("[experiment] seeds must be a list of 1 to ", kMostSeeds,
                                        " whole numbers from 0, each once, like [1, 2, 3]"));
    if (list == nullptr || list->empty() || list->size() > kMostSeeds) return wrong;
    experiment_.seeds.clear();
    std::set<int64_t> seen;
    for (const toml::node& one : *list) {
      const auto* number = one.as_integer();
      if (number == nullptr || number->get() < 0 || !seen.insert(number->get()).second) {
        return wrong;
      }
      experiment_.seeds.push_back(static_cast<uint64_t>(number->get()));
    }
    return absl::OkStatus();
  }

  absl::Status ReadFaults() {
    ASSIGN_OR_RETURN(const toml::table* const section, Section("faults"));
    if (section == nullptr) return absl::OkStatus();
    const std::vector<ExperimentField> fields = SettingFields(experiment_.keys);
    for (const auto& [name, node] : *section) {
      RETURN_IF_ERROR(AssignField(fields, ChangeOf("faults", std::string(name.str()), node)));
    }
    return absl::OkStatus();
  }

  absl::Status ReadRamp() {
    const toml::node* const node = document_.get("ramp");
    if (node == nullptr) return absl::OkStatus();
    const toml::array* const steps = node->as_array();
    const absl::string_view form =
        "a step of the ramp is [[ramp]] with round, a whole number from 0, and peers, one from 1";
    if (steps == nullptr) return Wrong(Place(*node), form);
    if (!experiment_.keys.ramp.empty()) {
      return Wrong(Place(*node),
                   "[[ramp]] is in place of [experiment] ramp; leave one of them out");
    }
    std::vector<std::string> parts;
    for (const toml::node& step : *steps) {
      const toml::table* const table = step.as_table();
      if (table == nullptr || table->size() != 2) return Wrong(Place(step), form);
      const auto* round = table->get_as<int64_t>("round");
      const auto* peers = table->get_as<int64_t>("peers");
      if (round == nullptr || peers == nullptr || round->get() < 0 || peers->get() < 1) {
        return Wrong(Place(step), form);
      }
      parts.push_back(absl::StrCat(round->get(), ":", peers->get()));
    }
    experiment_.keys.ramp = absl::StrJoin(parts, ",");
    return absl::OkStatus();
  }

  absl::Status ReadPartition() {
    ASSIGN_OR_RETURN(const toml::table* const section, Section("partition"));
    if (section == nullptr) return absl::OkStatus();
    experiment_.partition_place = Place(*section);
    ASSIGN_OR_RETURN(const toml::table* const data, Section("data"));
    for (const char* key : {"path", "kind", "field"}) {
      const toml::node* const node = data == nullptr ? nullptr : data->get(key);
      if (node != nullptr) experiment_.data.push_back(ChangeOf("data", key, *node));
    }
    for (const auto& [name, node] : *section) {
      experiment_.partition.push_back(ChangeOf("partition", std::string(name.str()), node));
    }
    return absl::OkStatus();
  }

  absl::Status ReadLinks() {
    ASSIGN_OR_RETURN(const toml::table* const section, Section("links"));
    if (section == nullptr) return absl::OkStatus();
    for (const auto& [name, node] : *section) {
      const toml::table* const table = node.as_table();
      LinkKeys link;
      link.pattern = std::string(name.str());
      if (table == nullptr) {
        return Wrong(Place(node), absl::StrCat("the link of '", link.pattern,
                                               "' must be a table, like {up = \"20Mbit\", "
                                               "delay = \"30ms\"}"));
      }
      for (const auto& [key, value] : *table) {
        RETURN_IF_ERROR(
            AssignField(LinkFields(link), ChangeOf("links", std::string(key.str()), value)));
      }
      const bool first = link.pattern == kDefaultLink;
      experiment_.links.insert(first ? experiment_.links.begin() : experiment_.links.end(),
                               std::move(link));
    }
    return absl::OkStatus();
  }

  // The keys of a [[setting]] or of [grid], in the order of the file. "outer.rule" and outer.rule
  // are the same.
  void Flatten(const std::string& prefix, const toml::table& table,
               std::vector<std::pair<std::string, const toml::node*>>* out) const {
    for (const auto& [name, node] : table) {
      const std::string path = absl::StrCat(prefix, std::string(name.str()));
      if (node.is_table()) {
        Flatten(path + ".", *node.as_table(), out);
      } else {
        out->emplace_back(path, &node);
      }
    }
  }

  std::vector<std::pair<std::string, const toml::node*>> KeysOf(const toml::table& table) const {
    std::vector<std::pair<std::string, const toml::node*>> keys;
    Flatten("", table, &keys);
    std::stable_sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) {
      const toml::source_position left = a.second->source().begin;
      const toml::source_position right = b.second->source().begin;
      return left.line != right.line ? left.line < right.line : left.column < right.column;
    });
    return keys;
  }

  absl::StatusOr<SettingChange> PathChange(const std::string& path, const toml::node& node) const {
    const std::vector<std::string> parts = absl::StrSplit(path, absl::MaxSplits('.', 1));
    if (parts.size() != 2) {
      return Wrong(Place(node), absl::StrCat("'", path,
                                             "' is not a key of a section; write it as "
                                             "\"section.key\", like \"outer.rule\""));
    }
    const SettingChange change = ChangeOf(parts[0], parts[1], node);
    RETURN_IF_ERROR(CheckChange(change));
    return change;
  }

  absl::Status ReadSettings() {
    std::vector<ExperimentSetting> named;
    if (const toml::node* const node = document_.get("setting")) {
      const toml::array* const list = node->as_array();
      if (list == nullptr) return Wrong(Place(*node), "a setting is written [[setting]]");
      for (const toml::node& one : *list) {
        ASSIGN_OR_RETURN(named.emplace_back(), ReadSetting(one));
      }
    }
    std::vector<GridAxis> axes;
    ASSIGN_OR_RETURN(const toml::table* const grid, Section("grid"));
    if (grid != nullptr) {
      for (const auto& [path, node] : KeysOf(*grid)) {
        ASSIGN_OR_RETURN(axes.emplace_back(), ReadAxis(path, *node));
      }
    }
    absl::StatusOr<std::vector<ExperimentSetting>> settings =
        ExpandSettings(named, axes, experiment_.name);
    if (!settings.ok()) {
      const toml::node* const at = document_.get(grid != nullptr ? "grid" : "setting");
      return Wrong(at == nullptr ? origin_ + ":1" : Place(*at), settings.status().message());
    }
    experiment_.settings = *std::move(settings);
    return absl::OkStatus();
  }

  absl::StatusOr<ExperimentSetting> ReadSetting(const toml::node& node) const {
    const toml::table* const table = node.as_table();
    if (table == nullptr) return Wrong(Place(node), "a setting is written [[setting]]");
    ExperimentSetting setting;
    for (const auto& [path, value] : KeysOf(*table)) {
      if (path == "name" && value->is_string()) {
        setting.name = value->as_string()->get();
        continue;
      }
      ASSIGN_OR_RETURN(setting.changes.emplace_back(), PathChange(path, *value));
    }
    if (setting.name.empty() || !IsPrintable(setting.name)) {
      return Wrong(Place(node), "a [[setting]] needs a name, like name = \"FedProx\"");
    }
    return setting;
  }

  absl::StatusOr<GridAxis> ReadAxis(const std::string& path, const toml::node& node) const {
    const toml::array* const list = node.as_array();
    if (list == nullptr || list->empty()) {
      return Wrong(Place(node), absl::StrCat("\"", path,
                                             "\" in [grid] must be a list of the values to try, "
                                             "like [0.1, 1.0]"));
    }
    GridAxis axis;
    for (const toml::node& value : *list) {
      ASSIGN_OR_RETURN(axis.emplace_back(), PathChange(path, value));
    }
    return axis;
  }

  // Where the tables of the document begin, and whether they are ours.
  void Headings(const toml::node& node, bool ours, std::vector<std::pair<uint32_t, bool>>* out) {
    if (const toml::array* const list = node.as_array()) {
      for (const toml::node& one : *list) {
        if (one.is_table()) Headings(one, ours, out);
      }
      return;
    }
    const toml::table* const table = node.as_table();
    if (table == nullptr || table->is_inline()) return;
    out->emplace_back(table->source().begin.line, ours);
    for (const auto& [name, child] : *table) {
      if (child.is_table() || child.is_array_of_tables()) Headings(child, ours, out);
    }
  }

  void BlankOwnSections() {
    std::vector<std::pair<uint32_t, bool>> headings;
    const std::vector<std::string>& own = ExperimentSections();
    for (const auto& [name, node] : document_) {
      const bool ours = std::find(own.begin(), own.end(), std::string(name.str())) != own.end();
      Headings(node, ours, &headings);
    }
    std::sort(headings.begin(), headings.end());
    std::vector<std::string> lines = absl::StrSplit(experiment_.text, '\n');
    size_t next = 0;
    bool ours = false;
    for (size_t i = 0; i < lines.size(); ++i) {
      for (; next < headings.size() && headings[next].first <= i + 1; ++next) {
        ours = headings[next].second;
      }
      if (ours) lines[i].clear();
    }
    experiment_.run_text = absl::StrJoin(lines, "\n");
  }

  const toml::table& document_;
  const std::string origin_;
  Experiment& experiment_;
};

}  // namespace

absl::StatusOr<Experiment> ParseExperiment(const std::string& text, const std::string& origin,
                                           const std::string& folder) {
  toml::table document;
  try {
    document = toml::parse(std::string_view(text), origin);
  } catch (const toml::parse_error& error) {
    // The reader of configs says more of a line that it knows.
    RETURN_IF_ERROR(ParseConfig(text, origin, folder, ConfigUse::kAny).status());
    return Wrong(absl::StrCat(origin, ":", error.source().begin.line),
                 std::string(error.description()));
  }
  Experiment experiment;
  experiment.path = origin;
  experiment.folder = folder;
  experiment.text = text;
  experiment.name = std::filesystem::path(origin).stem().string();
  RETURN_IF_ERROR(FileReader(document, origin, &experiment).Read());
  return experiment;
}

absl::StatusOr<Experiment> ReadExperiment(const std::string& path) {
  std::error_code error;
  std::ifstream stream(path, std::ios::binary);
  if (!std::filesystem::is_regular_file(path, error) || !stream) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": there is no such file; configs/experiments/ has examples"));
  }
  std::string text(kMostFileBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  if (text.size() > kMostFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is larger than 1 MiB"));
  }
  const std::filesystem::path file = std::filesystem::absolute(path, error);
  return ParseExperiment(text, path, file.parent_path().string());
}

}  // namespace atolld
