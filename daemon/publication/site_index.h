// SiteIndex: what a published run consists of, as its file run.json says it.
//
// A site is a folder of static files that any web server can serve. run.json names the others, with
// the length and the SHA-256 of each. docs/verify.md describes the files.
//
// Law: run.json is the publisher's word, so a reader believes none of it. It bounds what a reader
// fetches, and every other statement is checked against the signed history. Pure. May be called
// from any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "membership/history/digest.h"

namespace atolld {

// The format of the files. A reader refuses a higher one.
inline constexpr uint64_t kSiteFormat = 1;

inline constexpr char kSiteIndex[] = "run.json";
inline constexpr char kSitePage[] = "index.html";
inline constexpr char kSiteStory[] = "story.json";
inline constexpr char kSiteGenesis[] = "genesis";
inline constexpr char kSiteHeaders[] = "headers";
inline constexpr char kSiteHeaderOffsets[] = "headers.index";
inline constexpr char kSiteState[] = "state";  // the snapshot from which the entries begin
inline constexpr char kSitePayloads[] = "payloads";
inline constexpr char kSitePayloadOffsets[] = "payloads.index";
inline constexpr char kSiteSeal[] = "seal";
inline constexpr char kSiteReceipts[] = "receipts.json";

// The longest run.json, which has a few kilobytes.
inline constexpr uint64_t kLargestSiteIndex = uint64_t{1} << 20;
// The longest page, the longest story and the longest list of receipts.
inline constexpr uint64_t kLargestSiteText = uint64_t{32} << 20;
inline constexpr uint64_t kLargestSiteReceipts = uint64_t{8} << 20;
// The longest text in run.json, in bytes.
inline constexpr size_t kLongestSiteField = 1024;
// No file of a site is longer: 2^50 bytes.
inline constexpr uint64_t kLargestSiteFile = uint64_t{1} << 50;

struct SiteFile {
  std::string name;
  uint64_t bytes = 0;
  Digest sha256{};
};

struct SiteIndex {
  std::string run_id;
  std::string name;      // what people call the run; may be empty
  std::string software;  // the release that wrote the site
  uint64_t numerics = 0;
  uint64_t elements = 0;  // the number of the model's parameters
  std::string model;      // the kind of the model
  std::string codec;
  std::string history_key;  // empty if the history is unsigned
  Digest genesis_digest{};
  uint64_t version = 0;       // the newest one
  uint64_t first_header = 1;  // headers from this version to `version`; version + 1 if none
  // The version of the state; nullopt if the site has neither a state nor payloads. The payloads
  // are those of the entries after it.
  std::optional<uint64_t> state_version;
  // The digest of the state of `version`; nullopt if no header, seal or snapshot names it.
  std::optional<Digest> state_digest;
  bool sealed = false;
  std::vector<SiteFile> files;  // all but run.json

  const SiteFile* Find(absl::string_view file) const;  // null if the site has no such file
  uint64_t headers() const { return version + 1 - first_header; }
  uint64_t payloads() const { return state_version ? version - *state_version : 0; }
  uint64_t bytes() const;  // of all files but run.json
};

// Fails with INVALID_ARGUMENT unless the text can be the name of a site: UTF-8 of at most
// kLongestSiteField bytes.
absl::Status CheckSiteName(absl::string_view name);

nlohmann::ordered_json SiteIndexJson(const SiteIndex& index);

// Parses JSON that nobody vouches for: lists and objects within one another at most `depth` deep.
// Fails with DATA_LOSS if it is no such JSON.
absl::StatusOr<nlohmann::json> ParseShallowJson(absl::string_view text, int depth);

// Fails with DATA_LOSS if the text is not the run.json of a site, names a file that no site has, or
// contradicts itself; the message says where. Fails with UNIMPLEMENTED if it is of a newer format.
absl::StatusOr<SiteIndex> ParseSiteIndex(const std::string& text);

// -----------------------------------------------------------------------------------------------

// The table of a file that holds pieces one after another: where each begins and, last, the file's
// length. Each is 8 bytes, little-endian.
inline constexpr size_t kSiteOffsetBytes = 8;
std::string EncodeOffsets(const std::vector<uint64_t>& offsets);
// Fails with DATA_LOSS unless the table has `pieces` + 1 offsets, the first is 0, none is lower
// than the one before it, and the last one is `bytes`.
absl::StatusOr<std::vector<uint64_t>> DecodeOffsets(absl::string_view table, uint64_t pieces,
                                                    uint64_t bytes);

}  // namespace atolld
