#include "daemon/cli/mode_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compression/base/status_macros.h"
#include "compression/wire_codec.h"
#include "daemon/program/format.h"

namespace atolld {
namespace {

struct ModeLine {
  ModeOption option;
  uint32_t least_steps = 0;
  bool of_config = false;
  bool chosen = false;  // by "auto"
};

struct ModeTable {
  std::vector<ModeLine> lines;
  absl::StatusOr<ModeOption> chosen = absl::UnknownError("");
  ModeOption sync;  // with the config's codec
};

// Returns the config's codecs and, if they are the default, the smaller ones that "auto" would try.
std::vector<LevelCodecs> CodecsToCompare(const ModesAsked& asked) {
  std::vector<LevelCodecs> codecs;
  const auto add = [&](const std::string& updates, const std::string& means) {
    const absl::StatusOr<LevelCodecs> levels = LevelsWith(updates, means, asked.slow_codec);
    if (levels.ok()) codecs.push_back(*levels);
  };
  add(asked.codec, asked.upper_codec);
  const bool apart = asked.upper_codec != asked.codec;
  if (asked.codec == "int8") add("int4", apart ? asked.upper_codec : "int4");
  return codecs;
}

bool Same(const ModeShape& a, const ModeShape& b) {
  return a.kind == b.kind && a.fragments == b.fragments && a.overlap_steps == b.overlap_steps;
}

ModeTable TableOf(const ModesAsked& asked) {
  const ModeQuestion& question = asked.question;
  const std::vector<LevelCodecs> codecs = CodecsToCompare(asked);
  ModeTable table;
  table.sync = PredictMode(question, {"sync", 1, 0}, codecs.front());
  table.chosen = ChooseMode(question, asked.utilisation, codecs, [](const auto&) { return true; });
  for (size_t i = 0; i < codecs.size(); ++i) {
    std::vector<ModeOption> options = {i == 0 ? table.sync
                                              : PredictMode(question, {"sync", 1, 0}, codecs[i])};
    for (const uint32_t overlap : OverlapsToTry(question.steps)) {
      options.push_back(PredictStreaming(question, overlap, asked.utilisation, codecs[i]));
    }
    for (const char* const kind : {"eager", "delayed", "async"}) {
      options.push_back(PredictMode(question, {kind, 1, 0}, codecs[i]));
    }
    const bool listed = std::any_of(options.begin(), options.end(), [&](const ModeOption& option) {
      return Same(option.shape, asked.mode);
    });
    if (!listed && asked.mode.kind != "auto") {
      options.push_back(PredictMode(question, asked.mode, codecs[i]));
    }
    for (const ModeOption& option : options) {
      ModeLine line{option, LeastStepsOf(question, option, asked.utilisation)};
      line.of_config = i == 0 && Same(option.shape, asked.mode);
      line.chosen = table.chosen.ok() && Same(option.shape, table.chosen->shape) &&
                    option.codec == table.chosen->codec;
      table.lines.push_back(line);
    }
  }
  return table;
}

std::string MarkOf(const ModeLine& line) {
  if (line.chosen && line.of_config) return "auto, config";
  return line.chosen ? "auto" : line.of_config ? "config" : "";
}

std::string SecondsText(double seconds) { return absl::StrFormat("%.2f s", seconds); }

// Returns the keys to write into a config for this choice; nothing for defaults.
std::string KeysOf(const ModeOption& chosen, const ModesAsked& asked) {
  std::string keys = absl::StrCat("[mode] kind = \"", chosen.shape.kind, "\"");
  if (chosen.shape.kind == "streaming") {
    absl::StrAppend(&keys, ", fragments = ", chosen.shape.fragments,
                    ", overlap = ", chosen.shape.overlap_steps);
  }
  const std::vector<LevelCodecs> codecs = CodecsToCompare(asked);
  if (chosen.codec == codecs.front().name()) return keys;
  const bool slow = asked.slow_codec.empty() || codecs.back().slow != nullptr;
  return absl::StrCat(keys, "; [exchange] codec = \"int4\"", slow ? "" : ", slow_codec = \"\"");
}

}  // namespace

absl::StatusOr<LevelCodecs> LevelsWith(const std::string& updates, const std::string& means,
                                       const std::string& slow) {
  ASSIGN_OR_RETURN(LevelCodecs codecs, ParseLevels(updates, means));
  if (slow.empty()) return codecs;
  ASSIGN_OR_RETURN(const Codec* const slow_codec, FindCodec(slow));
  const absl::StatusOr<LevelCodecs> both = WithSlowCodec(codecs, *slow_codec);
  return both.ok() ? *both : codecs;
}

nlohmann::ordered_json ModesJson(const ModesAsked& asked) {
  if (asked.question.step_seconds <= 0) return nullptr;
  const ModeTable table = TableOf(asked);
  nlohmann::ordered_json modes = nlohmann::ordered_json::array();
  for (const ModeLine& line : table.lines) {
    const RoundPrediction& round = line.option.round;
    modes.push_back({{"mode", line.option.shape.kind},
                     {"fragments", line.option.shape.fragments},
                     {"overlap", line.option.shape.overlap_steps},
                     {"codec", line.option.codec},
                     {"exchange_seconds", round.exchange_seconds},
                     {"waited_seconds", round.waited_seconds},
                     {"round_seconds", round.seconds()},
                     {"compute_utilization", round.utilisation()},
                     {"least_steps", line.least_steps},
                     {"of_config", line.of_config},
                     {"auto", line.chosen}});
  }
  nlohmann::ordered_json json = {{"utilisation_asked", asked.utilisation},
                                 {"steps", asked.question.steps},
                                 {"auto", nullptr},
                                 {"why", nullptr},
                                 {"modes", modes}};
  if (!table.chosen.ok()) {
    json["why"] = table.chosen.status().message();
    return json;
  }
  json["auto"] = KeysOf(*table.chosen, asked);
  json["why"] = WhyMode(*table.chosen, table.sync, asked.utilisation);
  return json;
}

std::vector<std::string> ModesText(const ModesAsked& asked) {
  if (asked.question.step_seconds <= 0) return {};
  const ModeTable table = TableOf(asked);
  std::vector<std::vector<std::string>> rows = {
      {"mode", "fragments", "tau", "codec", "round", "exchange", "waited", "utilisation",
       absl::StrFormat("steps for %.4g %%", 100 * asked.utilisation), ""}};
  for (const ModeLine& line : table.lines) {
    const bool streaming = line.option.shape.kind == "streaming";
    const RoundPrediction& round = line.option.round;
    rows.push_back(
        {line.option.shape.kind, streaming ? absl::StrCat(line.option.shape.fragments) : "",
         streaming ? absl::StrCat(line.option.shape.overlap_steps) : "", line.option.codec,
         SecondsText(round.seconds()), SecondsText(round.exchange_seconds),
         SecondsText(round.waited_seconds), absl::StrFormat("%.1f %%", 100 * round.utilisation()),
         WithThousands(line.least_steps), MarkOf(line)});
  }
  std::vector<std::string> lines = AlignColumns(rows, "<>><>>>>><");
  lines.emplace_back();
  if (table.chosen.ok()) {
    lines.push_back(absl::StrCat("auto: ", KeysOf(*table.chosen, asked)));
    lines.push_back(WhyMode(*table.chosen, table.sync, asked.utilisation));
  } else {
    lines.push_back(absl::StrCat("auto: ", table.chosen.status().message()));
  }
  lines.emplace_back();
  return lines;
}

}  // namespace atolld
