#include "daemon/config/data_config.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace atolld {
namespace {

constexpr char kTokenizerLine[] = "\ntokenizer ";

}  // namespace

bool IsChat(const DataConfig& data) { return data.kind == "chat" || !data.chat_template.empty(); }

uint32_t BytesOfWidth(uint32_t width) { return width > 8 ? width / 8 : width; }

bool IsTokenizerFile(const std::string& tokenizer) {
  return tokenizer != kByteTokenizer && tokenizer != kCharTokenizer;
}

absl::StatusOr<std::vector<DataSource>> SourcesOf(const DataConfig& data) {
  if (data.sources.empty()) {
    if (data.path.empty()) return std::vector<DataSource>{};
    return std::vector<DataSource>{{data.path, 1}};
  }
  std::vector<DataSource> sources;
  for (const absl::string_view one : absl::StrSplit(data.sources, ',')) {
    const size_t colon = one.rfind(':');
    DataSource source;
    if (colon != absl::string_view::npos) {
      source.path = std::string(absl::StripAsciiWhitespace(one.substr(0, colon)));
    }
    if (source.path.empty() || !absl::SimpleAtod(one.substr(colon + 1), &source.weight) ||
        !(source.weight > 0) || !std::isfinite(source.weight)) {
      return absl::InvalidArgumentError(
          absl::StrCat("[data] sources must be of the form \"books:0.7,code:0.3\", a path and a "
                       "weight above 0 each, not '",
                       one, "'"));
    }
    sources.push_back(std::move(source));
  }
  return sources;
}

void PlaceData(const std::string& folder, DataConfig* data) {
  const auto place = [&](const std::string& path) {
    return (std::filesystem::path(folder) / path).lexically_normal().string();
  };
  if (!data->path.empty()) data->path = place(data->path);
  if (IsTokenizerFile(data->tokenizer)) data->tokenizer = place(data->tokenizer);
  const absl::StatusOr<std::vector<DataSource>> sources = SourcesOf(*data);
  if (data->sources.empty() || !sources.ok()) return;
  data->sources = absl::StrJoin(*sources, ",", [&](std::string* out, const DataSource& source) {
    absl::StrAppend(out, place(source.path), ":", source.weight);
  });
}

std::string WithTokenizer(const std::string& places, const std::string& tokenizer) {
  return absl::StrCat(places.substr(0, places.find(kTokenizerLine)), kTokenizerLine, tokenizer);
}

std::string WorkerPlaces(const DataConfig& data) {
  const absl::StatusOr<std::vector<DataSource>> sources = SourcesOf(data);
  if (!sources.ok()) return data.path;
  const std::string places = absl::StrJoin(
      *sources, "\n", [](std::string* out, const DataSource& one) { out->append(one.path); });
  return IsTokenizerFile(data.tokenizer) ? WithTokenizer(places, data.tokenizer) : places;
}

bool NeedsCounting(const DataConfig& data) {
  return data.tokenizer != kByteTokenizer && data.kind != "bin" && data.kind != "npy" &&
         PreparedVocabulary(data) == 0;
}

uint64_t PreparedVocabulary(const DataConfig& data) {
  const absl::StatusOr<std::vector<DataSource>> sources = SourcesOf(data);
  if (!sources.ok()) return 0;
  for (const DataSource& source : *sources) {
    std::ifstream file(source.path + "/data.json", std::ios::binary);
    const nlohmann::json json = nlohmann::json::parse(
        std::string(std::istreambuf_iterator<char>(file), {}), nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) continue;
    const auto vocabulary = json.find("vocabulary");
    if (vocabulary != json.end() && vocabulary->is_number_unsigned()) {
      return vocabulary->get<uint64_t>();
    }
  }
  return 0;
}

}  // namespace atolld
