#include "daemon/publication/site_index.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compression/base/bytes.h"
#include "compression/base/status_macros.h"
#include "compression/base/utf8.h"

namespace atolld {
namespace {

using Json = nlohmann::ordered_json;

// A run has fewer rounds, and a longer table of offsets does not belong in memory.
constexpr uint64_t kMostVersions = uint64_t{1} << 24;
constexpr int kIndexDepth = 8;  // a later release may nest deeper than this one's 3
// Not constexpr: the address of an inline variable is no constant with AddressSanitizer.
const std::array<absl::string_view, 10> kFileNames = {
    kSitePage,  kSiteStory,    kSiteGenesis,        kSiteHeaders, kSiteHeaderOffsets,
    kSiteState, kSitePayloads, kSitePayloadOffsets, kSiteSeal,    kSiteReceipts};

// Takes the fields of an object one by one, and remembers the first that is wrong.
class IndexFields {
 public:
  explicit IndexFields(const nlohmann::json& json) : json_(json) {}

  std::string Text(const char* name) {
    const nlohmann::json* const value = Take(name);
    if (value == nullptr) return "";
    if (!value->is_string() || value->get_ref<const std::string&>().size() > kLongestSiteField) {
      return Wrong(name, absl::StrCat("a text of at most ", kLongestSiteField, " bytes")), "";
    }
    return value->get<std::string>();
  }
  uint64_t Whole(const char* name, uint64_t most) {
    const nlohmann::json* const value = Take(name);
    if (value == nullptr) return 0;
    if (!value->is_number_unsigned() || value->get<uint64_t>() > most) {
      return Wrong(name, absl::StrCat("a whole number of at most ", most)), 0;
    }
    return value->get<uint64_t>();
  }
  std::optional<uint64_t> WholeOrNull(const char* name, uint64_t most) {
    return IsNull(name) ? std::nullopt : std::optional<uint64_t>(Whole(name, most));
  }
  bool Truth(const char* name) {
    const nlohmann::json* const value = Take(name);
    if (value == nullptr) return false;
    if (!value->is_boolean()) return Wrong(name, "true or false"), false;
    return value->get<bool>();
  }
  Digest Hash(const char* name) {
    const std::string text = Text(name);
    const absl::StatusOr<Digest> digest = DigestFromBytes(IsHex(text) ? BytesOfHex(text) : "");
    if (!digest.ok()) return Wrong(name, "64 hexadecimal digits"), Digest{};
    return *digest;
  }
  std::optional<Digest> HashOrNull(const char* name) {
    return IsNull(name) ? std::nullopt : std::optional<Digest>(Hash(name));
  }
  std::string KeyOrNull(const char* name) { return IsNull(name) ? "" : ToBytes(Hash(name)); }

  const absl::Status& status() const { return status_; }

 private:
  static bool IsHex(absl::string_view text) {
    return text.size() % 2 == 0 &&
           text.find_first_not_of("0123456789abcdefABCDEF") == absl::string_view::npos;
  }
  bool IsNull(const char* name) const {
    const auto found = json_.find(name);
    return found != json_.end() && found->is_null();
  }
  const nlohmann::json* Take(const char* name) {
    const auto found = json_.find(name);
    if (found != json_.end()) return &*found;
    if (status_.ok()) status_ = absl::DataLossError(absl::StrCat("\"", name, "\" is missing"));
    return nullptr;
  }
  void Wrong(const char* name, const std::string& wanted) {
    if (status_.ok()) {
      status_ = absl::DataLossError(absl::StrCat("\"", name, "\" must be ", wanted));
    }
  }

  const nlohmann::json& json_;
  absl::Status status_;
};

absl::Status ParseFiles(const nlohmann::json& json, SiteIndex* index) {
  const auto list = json.find("files");
  if (list == json.end() || !list->is_array()) {
    return absl::DataLossError("\"files\" must be a list");
  }
  std::set<std::string> names;
  for (const nlohmann::json& entry : *list) {
    if (!entry.is_object()) return absl::DataLossError("\"files\" must be a list of objects");
    IndexFields fields(entry);
    SiteFile file;
    file.name = fields.Text("name");
    file.bytes = fields.Whole("bytes", kLargestSiteFile);
    file.sha256 = fields.Hash("sha256");
    RETURN_IF_ERROR(fields.status());
    const bool known =
        std::find(kFileNames.begin(), kFileNames.end(), file.name) != kFileNames.end();
    if (!known || !names.insert(file.name).second) {
      return absl::DataLossError(
          absl::StrCat("\"files\" must have only files of a site, each "
                       "once, and it has \"",
                       file.name.substr(0, 64), "\""));
    }
    index->files.push_back(std::move(file));
  }
  return absl::OkStatus();
}

// Checks that the files are those that the counts ask for.
absl::Status CheckParts(const SiteIndex& index) {
  if (index.first_header < 1 || index.first_header > index.version + 1) {
    return absl::DataLossError(absl::StrCat("\"first_header\" must be from 1 to ",
                                            index.version + 1, ", and is ", index.first_header));
  }
  if (index.state_version &&
      (*index.state_version > index.version || *index.state_version + 1 < index.first_header)) {
    return absl::DataLossError(absl::StrCat("\"state_version\" must be from ",
                                            index.first_header - 1, " to ", index.version,
                                            ", and is ", *index.state_version));
  }
  const auto has = [&index](absl::string_view name, bool wanted) {
    if ((index.Find(name) != nullptr) == wanted) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("\"files\" ", wanted ? "lacks " : "must not have ",
                                            name, wanted ? "" : " in such a site"));
  };
  for (const absl::string_view name : {kSitePage, kSiteStory, kSiteGenesis, kSiteHeaders}) {
    RETURN_IF_ERROR(has(name, true));
  }
  RETURN_IF_ERROR(has(kSiteHeaderOffsets, true));
  for (const absl::string_view name : {kSiteState, kSitePayloads, kSitePayloadOffsets}) {
    RETURN_IF_ERROR(has(name, index.state_version.has_value()));
  }
  return has(kSiteSeal, index.sealed);
}

}  // namespace

const SiteFile* SiteIndex::Find(absl::string_view file) const {
  for (const SiteFile& one : files) {
    if (one.name == file) return &one;
  }
  return nullptr;
}

uint64_t SiteIndex::bytes() const {
  uint64_t sum = 0;
  for (const SiteFile& file : files) sum += file.bytes;
  return sum;
}

absl::Status CheckSiteName(absl::string_view name) {
  if (name.size() > kLongestSiteField) {
    return absl::InvalidArgumentError(absl::StrCat("a site's name has at most ", kLongestSiteField,
                                                   " bytes, and this one has ", name.size()));
  }
  if (FindInvalidUtf8(name) == name.size()) return absl::OkStatus();
  return absl::InvalidArgumentError("a site's name must be UTF-8");
}

Json SiteIndexJson(const SiteIndex& index) {
  Json files = Json::array();
  for (const SiteFile& file : index.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"sha256", ToHex(file.sha256)}});
  }
  const bool keyed = !index.history_key.empty();
  return {{"atoll_site", kSiteFormat},
          {"run_id", index.run_id},
          {"name", index.name},
          {"software", index.software},
          {"numerics", index.numerics},
          {"model", index.model},
          {"parameters", index.elements},
          {"codec", index.codec},
          {"history_key", keyed ? Json(absl::BytesToHexString(index.history_key)) : Json(nullptr)},
          {"genesis_digest", ToHex(index.genesis_digest)},
          {"version", index.version},
          {"first_header", index.first_header},
          {"headers", index.headers()},
          {"state_version", index.state_version ? Json(*index.state_version) : Json(nullptr)},
          {"payloads", index.payloads()},
          {"state_digest", index.state_digest ? Json(ToHex(*index.state_digest)) : Json(nullptr)},
          {"sealed", index.sealed},
          {"bytes", index.bytes()},
          {"files", std::move(files)}};
}

// nlohmann::json, unlike ordered_json, takes an object of many keys in little more than linear
// time.
absl::StatusOr<nlohmann::json> ParseShallowJson(absl::string_view text, int depth) {
  int open = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\') {
      ++i;  // what it escapes ends no text
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == '[' || c == '{')) {
      if (++open > depth) return absl::DataLossError("it nests too deep");
    } else if (!quoted && (c == ']' || c == '}')) {
      --open;
    }
  }
  nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::DataLossError("it is not JSON");
  return json;
}

absl::StatusOr<SiteIndex> ParseSiteIndex(const std::string& text) {
  ASSIGN_OR_RETURN(const nlohmann::json json, ParseShallowJson(text, kIndexDepth));
  if (!json.is_object()) return absl::DataLossError("it is not a JSON object");
  IndexFields fields(json);
  const uint64_t format = fields.Whole("atoll_site", ~uint64_t{0});
  RETURN_IF_ERROR(fields.status());
  if (format != kSiteFormat) {
    return absl::UnimplementedError(
        absl::StrCat("it is of format ", format, ", and this release reads format ", kSiteFormat));
  }
  SiteIndex index;
  index.run_id = fields.Text("run_id");
  index.name = fields.Text("name");
  index.software = fields.Text("software");
  index.numerics = fields.Whole("numerics", ~uint32_t{0});
  index.model = fields.Text("model");
  index.elements = fields.Whole("parameters", kLargestSiteFile);
  index.codec = fields.Text("codec");
  index.history_key = fields.KeyOrNull("history_key");
  index.genesis_digest = fields.Hash("genesis_digest");
  index.version = fields.Whole("version", kMostVersions);
  index.first_header = fields.Whole("first_header", kMostVersions + 1);
  index.state_version = fields.WholeOrNull("state_version", kMostVersions);
  index.state_digest = fields.HashOrNull("state_digest");
  index.sealed = fields.Truth("sealed");
  RETURN_IF_ERROR(fields.status());
  RETURN_IF_ERROR(ParseFiles(json, &index));
  RETURN_IF_ERROR(CheckParts(index));
  return index;
}

std::string EncodeOffsets(const std::vector<uint64_t>& offsets) {
  std::string table;
  table.reserve(offsets.size() * kSiteOffsetBytes);
  for (const uint64_t offset : offsets) {
    for (size_t i = 0; i < kSiteOffsetBytes; ++i) table += static_cast<char>(offset >> (8 * i));
  }
  return table;
}

absl::StatusOr<std::vector<uint64_t>> DecodeOffsets(absl::string_view table, uint64_t pieces,
                                                    uint64_t bytes) {
  if (table.size() != (pieces + 1) * kSiteOffsetBytes) {
    return absl::DataLossError(absl::StrCat("it must have ", (pieces + 1) * kSiteOffsetBytes,
                                            " bytes, and has ", table.size()));
  }
  std::vector<uint64_t> offsets(pieces + 1);
  for (size_t i = 0; i < table.size(); ++i) {
    const auto byte = static_cast<uint64_t>(static_cast<uint8_t>(table[i]));
    offsets[i / kSiteOffsetBytes] |= byte << (8 * (i % kSiteOffsetBytes));
  }
  for (size_t i = 0; i < offsets.size(); ++i) {
    const uint64_t least = i == 0 ? 0 : offsets[i - 1];
    const bool wrong = offsets[i] < least || offsets[i] > bytes || (i == 0 && offsets[i] != 0);
    if (wrong) {
      return absl::DataLossError(absl::StrCat("piece ", i, " cannot begin at ", offsets[i],
                                              ", after ", least, " in a file of ", bytes,
                                              " bytes"));
    }
  }
  if (offsets.back() != bytes) {
    return absl::DataLossError(
        absl::StrCat("it ends at ", offsets.back(), ", and the file has ", bytes, " bytes"));
  }
  return offsets;
}

}  // namespace atolld
