#include "daemon/config/config_text.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "daemon/config/config_defaults.h"
#include "daemon/config/config_table.h"

namespace atolld {
namespace {

constexpr size_t kColumns = 100;

// Returns lines of at most kColumns columns, the first after `first` and the others after `rest`.
std::string Wrapped(absl::string_view text, absl::string_view first, absl::string_view rest) {
  std::string out;
  std::string line(first);
  bool empty = true;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (!empty && line.size() + 1 + word.size() > kColumns) {
      absl::StrAppend(&out, line, "\n");
      line = std::string(rest);
      empty = true;
    }
    absl::StrAppend(&line, empty ? "" : " ", word);
    empty = false;
  }
  absl::StrAppend(&out, line, "\n");
  return out;
}

// Turns "half a sentence" into "Half a sentence."
std::string Sentence(std::string text) {
  if (!text.empty()) text[0] = absl::ascii_toupper(static_cast<unsigned char>(text[0]));
  return absl::StrCat(text, ".");
}

// Returns "a whole number from 1 to 1000000".
std::string Legal(const ConfigField& field) {
  const std::string legal = MustBe(field.value);
  return std::string(field.needed_by.empty() ? legal : absl::StripSuffix(legal, "; or empty"));
}

// Returns what a key is, when to change it, and its default.
std::string Explanation(const ConfigField& field) {
  std::string text = absl::StrCat(Sentence(field.meaning), " ", field.advice);
  if (!field.follows.empty()) absl::StrAppend(&text, " Default: ", field.follows, ".");
  return text;
}

bool IsUnset(const ConfigField& field) {
  const Text* text = std::get_if<Text>(&field.value);
  return text != nullptr && text->at->empty() && !field.needed_by.empty();
}

// Returns the row of a table key, with its value for this config.
std::string TableRow(const ConfigField& field, const Config& config) {
  return field.section == "outer" && field.key == "learning_rate" ? OuterRatesOf(config) : "";
}

std::string Print(Config config, bool defaults, absl::string_view heading) {
  Config default_config;
  const std::vector<ConfigField> default_fields = ConfigFields(default_config);
  auto default_field = default_fields.begin();
  std::string out = Wrapped(heading, "# ", "# ");
  for (const ConfigSection& section : ConfigSections(config)) {
    absl::StrAppend(&out, "\n", Wrapped(section.meaning, "# ", "# "), "[", section.name, "]\n");
    for (const ConfigField& field : section.fields) {
      std::string text = Explanation(field);
      if (!std::holds_alternative<Flag>(field.value)) {
        absl::StrAppend(&text, " Legal: ", Legal(field), ".");
      }
      const bool fixed = field.needed_by.empty() && field.follows.empty();
      if (!field.needed_by.empty()) absl::StrAppend(&text, " It has no default.");
      if (fixed) absl::StrAppend(&text, " Default: ", FormatValue(default_field->value), ".");
      if (field.record.how == Recorded::kYes) absl::StrAppend(&text, " Recorded in the run.");
      const std::string row = defaults ? "" : TableRow(field, config);
      if (!row.empty()) absl::StrAppend(&text, " The table's for this run: ", row, ".");
      const bool taken = section.name != "model" || TakesModelKey(config.model.kind, field.key);
      const bool out_of_use = !taken || IsUnset(field) || (defaults && !fixed);
      absl::StrAppend(&out, "\n", Wrapped(text, "# ", "# "), out_of_use ? "#" : "", field.key,
                      " = ", FormatValue(field.value), "\n");
      ++default_field;
    }
  }
  return out;
}

// Returns `word` between backticks, as code.
std::string Code(absl::string_view word) { return absl::StrCat("`", word, "`"); }

std::string MarkdownRow(const ConfigField& field, absl::string_view legal) {
  const std::string value = !field.needed_by.empty() ? "none"
                            : !field.follows.empty() ? "see below"
                                                     : Code(FormatValue(field.value));
  const char* recorded = field.record.how == Recorded::kYes      ? "yes"
                         : field.record.how == Recorded::kInPart ? "in part"
                                                                 : "no";
  return absl::StrCat("| ", Code(field.key), " | ", legal, " | ", value, " | ", recorded, " |");
}

std::string MarkdownOf(const ConfigSection& section) {
  std::string rows;
  std::string list;
  for (const ConfigField& field : section.fields) {
    const std::string legal = Legal(field);
    const std::string row = MarkdownRow(field, legal);
    const bool fits = row.size() <= kColumns;  // else the list says it
    absl::StrAppend(&rows, fits ? row : MarkdownRow(field, TypeOf(field.value)), "\n");
    const std::string text =
        absl::StrCat(Explanation(field), fits ? "" : absl::StrCat(" Legal: ", legal, "."));
    absl::StrAppend(&list, Wrapped(text, absl::StrCat("- **", Code(field.key), "**: "), "  "));
  }
  return absl::StrCat("### [", section.name, "]\n\n", Wrapped(section.meaning, "", ""),
                      "\n| key | legal | default | recorded |\n"
                      "| --- | --- | --- | --- |\n",
                      rows, "\n", list);
}

}  // namespace

std::string FormatConfig(const Config& config) {
  Config copy = config;
  std::string out;
  for (const ConfigSection& section : ConfigSections(copy)) {
    absl::StrAppend(&out, out.empty() ? "" : "\n", "[", section.name, "]\n");
    for (const ConfigField& field : section.fields) {
      if (section.name == "model" && !TakesModelKey(config.model.kind, field.key)) continue;
      absl::StrAppend(&out, field.key, " = ", FormatValue(field.value), "  # ", field.meaning,
                      "\n");
    }
  }
  return out;
}

std::string PrintConfig(const Config& config) {
  return Print(config, /*defaults=*/false,
               "A config of Atoll, as Atoll reads it: every key with the value that is in effect. "
               "Paths are absolute. docs/config.md says the same of each key.");
}

std::string PrintDefaultConfig() {
  return Print(
      Config(), /*defaults=*/true,
      "A config of Atoll: every key with its default. A key that is commented out has "
      "none, or one that follows from other keys. docs/config.md says the same of each key.");
}

std::string ConfigMarkdown() {
  const struct {
    ConfigPart part;
    const char* text;
  } parts[] = {
      {ConfigPart::kRun,
       "## What the run records\n\n"
       "The coordinator reads these sections when it first starts, and so does the coordinator of\n"
       "`atoll local`. What is recorded stands in the run's record and never changes; peers "
       "follow\n"
       "the record, whatever their own files say. What is not recorded may be changed when the\n"
       "process that reads it is started again.\n"},
      {ConfigPart::kCoordinator,
       "## What a coordinator has\n\n"
       "Change these when you start the coordinator again.\n"},
      {ConfigPart::kPeer,
       "## What a peer has\n\n"
       "Each peer has its own, and may change them whenever it is started again.\n"},
      {ConfigPart::kEveryProcess,
       "## What every process has\n\n"
       "Each process reads these from its own file. `plaintext` must be the same for all of a "
       "run.\n"},
  };
  std::string out =
      "<!-- Generated: `atoll config print --markdown >docs/config.md` writes this page. -->\n"
      "# Every key of a config\n\n"
      "A config is a TOML file with sections. Any section and any key may be left out; a key that "
      "is\n"
      "left out takes its default. Each process reads what it needs and checks all of the file.\n"
      "`atoll config validate FILE` names the line that is wrong and the nearest legal name.\n"
      "`atoll config print FILE` prints every key with the value in effect, and `atoll config "
      "print\n"
      "--defaults` a complete file to begin with.\n\n"
      "The column \"recorded\" says whether the run's record holds the value: it is fixed when the "
      "run\n"
      "begins, and it is the same for all peers.\n";
  Config config;
  const std::vector<ConfigSection> sections = ConfigSections(config);
  for (const auto& part : parts) {
    absl::StrAppend(&out, "\n", part.text);
    for (const ConfigSection& section : sections) {
      if (section.part == part.part) absl::StrAppend(&out, "\n", MarkdownOf(section));
    }
  }
  return out;
}

}  // namespace atolld
