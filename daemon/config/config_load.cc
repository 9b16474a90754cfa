// LoadConfig: from a TOML file to a checked Config.
#include <toml++/toml.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "compression/base/check.h"
#include "compression/base/names.h"
#include "compression/base/status_macros.h"
#include "daemon/config/config.h"
#include "daemon/config/config_fields.h"
#include "daemon/config/config_foreign.h"
#include "daemon/config/config_rules.h"

namespace atolld {
namespace {

constexpr uint64_t kLargestVocabulary = uint64_t{1} << 24;  // as config_fields.cc says
// No config comes near this; what does is another kind of file given by mistake.
constexpr uintmax_t kLargestFile = 1 << 20;

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": there is no such file"));
  }
  if (std::filesystem::is_directory(status)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is a folder, not a config file"));
  }
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read"));
  std::string text(kLargestFile + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  if (text.size() > kLargestFile) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is larger than 1 MiB"));
  }
  return text;
}

RawValue RawOf(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::string:
      return node.as_string()->get();
    case toml::node_type::integer:
      return static_cast<int64_t>(node.as_integer()->get());
    case toml::node_type::floating_point:
      return node.as_floating_point()->get();
    case toml::node_type::boolean:
      return node.as_boolean()->get();
    case toml::node_type::array:
      return OtherValue{"a list"};
    case toml::node_type::table:
      return OtherValue{"a table"};
    default:
      return OtherValue{"a date or time"};
  }
}

// Nesterov's rate grows with the peers and not with the model: 0.4, 0.6, 0.6, 0.8 for 1, 2, 4, 8
// of them at 30 steps a round (arXiv:2503.09799, figure 7). Short runs of small models want more:
// 0.5 is too little for 3 and 4 of them (docs/benchmarks.md, "Peers beside data parallel").
double NesterovLearningRate(uint32_t peers) { return peers == 1 ? 0.4 : peers < 8 ? 0.7 : 0.8; }

// Plain averaging takes the mean as it is; what Nesterov's rule is tuned to would be wrong for it.
void UseDefaultsOfRule(const ConfigPlaces& places, Config* config) {
  if (config->outer.rule == "nesterov" && !places.Has("outer", "learning_rate")) {
    config->outer.learning_rate = NesterovLearningRate(config->run.peers);
  }
  if (config->outer.rule != "average") return;
  if (!places.Has("outer", "learning_rate")) config->outer.learning_rate = 1;
  if (!places.Has("outer", "momentum")) config->outer.momentum = 0;
}

// Codecs that leave most of an update out train only with feedback; topk as SparseLoCo has it.
void UseDefaultsOfCodec(const ConfigPlaces& places, Config* config) {
  const absl::string_view codec = absl::StripSuffix(config->exchange.codec, "+zstd");
  if (codec != "topk" && codec != "int2") return;
  if (!places.Has("exchange", "error_feedback")) config->exchange.error_feedback = true;
  if (codec == "topk" && !places.Has("exchange", "feedback_decay")) {
    config->exchange.feedback_decay = 0.95;
  }
}

// Reads one file over the table of fields.
class Loader {
 public:
  Loader(std::string path, const std::vector<ConfigField>& fields)
      : path_(std::move(path)), fields_(fields), places_(absl::StrCat(path_, ":1")) {}

  absl::Status Read(const std::string& text) {
    toml::table document;
    try {
      document = toml::parse(text, path_);
    } catch (const toml::parse_error& error) {
      // Some descriptions quote the text, line breaks included.
      std::string reason(error.description());
      std::replace_if(
          reason.begin(), reason.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
      return At(error.source().begin.line, reason);
    }
    for (const auto& [name, node] : document) {
      RETURN_IF_ERROR(ReadSection(std::string(name.str()), node));
    }
    return absl::OkStatus();
  }

  absl::Status Override(const ConfigOverride& change) {
    for (const ConfigField& field : fields_) {
      if (field.section != change.section || field.key != change.key) continue;
      const RawValue raw =
          std::visit([](const auto& value) { return RawValue(value); }, change.value);
      places_.Set(field.section, field.key, change.option);
      const absl::Status status = Assign(field, raw);
      return status.ok() ? status : Annotate(status, change.option);
    }
    CHECK(false);  // the caller names a key of the table
    return absl::OkStatus();
  }

  const ConfigPlaces& places() const { return places_; }

 private:
  std::string Place(uint32_t line) const { return absl::StrCat(path_, ":", line); }

  absl::Status At(uint32_t line, absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(Place(line), ": ", what));
  }

  absl::Status ReadSection(const std::string& section, const toml::node& node) {
    const uint32_t line = node.source().begin.line;
    const toml::table* table = node.as_table();
    if (table == nullptr) return At(line, OutsideOfSections(section));
    const std::vector<std::string> sections = SectionNames(fields_);
    const std::vector<std::string> keys = KeyNames(fields_, section);
    if (keys.empty()) {
      return At(line,
                absl::StrCat("unknown section [", section, "]", Suggestion(section, sections)));
    }
    places_.Set(section, "", Place(line));
    for (const auto& [name, value] : *table) {
      const std::string key(name.str());
      // A key of a sub-table has the place of the sub-table; a value has its own line.
      const uint32_t value_line = value.source().begin.line;
      const ConfigField* field = Find(section, key);
      if (field == nullptr) {
        return At(value_line, absl::StrCat("unknown key '", key, "' in [", section, "]",
                                           Suggestion(key, keys)));
      }
      places_.Set(section, key, Place(value_line));
      const absl::Status status = Assign(*field, RawOf(value));
      if (!status.ok()) return At(value_line, status.message());
    }
    return absl::OkStatus();
  }

  // For a value above the first heading, or a section written as a value.
  std::string OutsideOfSections(const std::string& key) const {
    for (const ConfigField& field : fields_) {
      if (field.section == key) return absl::StrCat("'", key, "' must be a section: [", key, "]");
      if (field.key == key) {
        return absl::StrCat("'", key, "' stands outside any section; did you mean it in [",
                            field.section, "]?");
      }
    }
    return absl::StrCat("'", key, "' stands outside any section");
  }

  const ConfigField* Find(const std::string& section, const std::string& key) const {
    for (const ConfigField& field : fields_) {
      if (field.section == section && field.key == key) return &field;
    }
    return nullptr;
  }

  const std::string path_;
  const std::vector<ConfigField>& fields_;
  ConfigPlaces places_;
};

}  // namespace

absl::StatusOr<Config> LoadConfig(const std::string& path, ConfigUse use,
                                  const std::vector<ConfigOverride>& overrides) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  Config config;
  const std::vector<ConfigField> fields = ConfigFields(config);
  Loader loader(path, fields);
  RETURN_IF_ERROR(loader.Read(text));
  for (const ConfigOverride& change : overrides) RETURN_IF_ERROR(loader.Override(change));

  UseDefaultsOfRule(loader.places(), &config);
  UseDefaultsOfCodec(loader.places(), &config);
  if (!loader.places().Has("membership", "outsized")) {
    config.membership.outsized = DefaultOutsized(config);
  }

  std::error_code error;
  const std::filesystem::path folder = std::filesystem::absolute(path, error).parent_path();
  RETURN_IF_ERROR(CheckConfigRules(config, fields, use, loader.places(), folder.string()));
  for (const ConfigField& field : fields) {
    const Text* value = std::get_if<Text>(&field.value);
    if (value == nullptr || value->form != TextForm::kPath || value->at->empty()) continue;
    *value->at = (folder / *value->at).lexically_normal().string();
  }
  if (!config.model.file.empty()) {
    ASSIGN_OR_RETURN(config.model.file_digest, DigestOfFile(config.model.file));
  }
  PlaceData(folder.string(), &config.data);
  // Written into the configs of a local run's processes, of which the coordinator reads no data.
  if (config.model.vocabulary == 0 && config.model.kind != kStubKind &&
      !IsForeign(config.model.kind)) {
    config.model.vocabulary = static_cast<uint32_t>(
        std::min<uint64_t>(PreparedVocabulary(config.data), kLargestVocabulary));
  }
  return config;
}

}  // namespace atolld
