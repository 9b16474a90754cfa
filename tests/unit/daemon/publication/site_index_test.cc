#include "daemon/publication/site_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

SiteIndex Example() {
  SiteIndex index;
  index.run_id = "books";
  index.name = "Books";
  index.software = "atoll 1";
  index.numerics = 1;
  index.elements = 300;
  index.model = "stub";
  index.codec = "int8";
  index.history_key = std::string(32, 'k');
  index.version = 4;
  index.state_version = 0;
  index.state_digest = Digest{};
  index.sealed = true;
  for (const char* const name :
       {kSiteGenesis, kSiteHeaders, kSiteHeaderOffsets, kSitePayloads, kSitePayloadOffsets,
        kSiteState, kSiteSeal, kSiteStory, kSitePage}) {
    index.files.push_back({name, 7, Digest{}});
  }
  return index;
}

void ExpectRefused(const Json& json, const std::string& why) {
  const absl::Status status = ParseSiteIndex(json.dump()).status();
  EXPECT_FALSE(status.ok()) << why;
  EXPECT_THAT(std::string(status.message()), HasSubstr(why));
}

TEST(SiteIndexTest, IsReadAsItWasWritten) {
  // Broken: nobody could read a site.
  const Json json = SiteIndexJson(Example());
  const absl::StatusOr<SiteIndex> read = ParseSiteIndex(json.dump());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(SiteIndexJson(*read), json);
  EXPECT_EQ(read->headers(), 4u);
  EXPECT_EQ(read->payloads(), 4u);
  EXPECT_EQ(read->bytes(), 63u);
  SiteIndex bare = Example();
  bare.history_key.clear();
  bare.state_digest.reset();
  EXPECT_EQ(ParseSiteIndex(SiteIndexJson(bare).dump())->history_key, "");
}

TEST(SiteIndexTest, RefusesWhatNoSiteSays) {
  // Broken: a hostile run.json could name any file and any length.
  Json json = SiteIndexJson(Example());
  const Json good = json;
  EXPECT_TRUE(absl::IsDataLoss(ParseSiteIndex("").status()));
  EXPECT_TRUE(absl::IsDataLoss(ParseSiteIndex("[1]").status()));
  EXPECT_TRUE(absl::IsDataLoss(ParseSiteIndex(std::string(100000, '[')).status()));
  EXPECT_THAT(std::string(ParseSiteIndex("{\"a\": " + std::string(9, '[')).status().message()),
              HasSubstr("nests too deep"));
  json["atoll_site"] = 2;
  EXPECT_TRUE(absl::IsUnimplemented(ParseSiteIndex(json.dump()).status()));
  const auto with = [&good](const char* key, const Json& value) {
    Json changed = good;
    changed[key] = value;
    return changed;
  };
  ExpectRefused(with("version", -1), "\"version\" must be a whole number");
  ExpectRefused(with("version", 1e30), "\"version\" must be a whole number");
  ExpectRefused(with("run_id", 7), "\"run_id\" must be a text");
  ExpectRefused(with("name", std::string(1025, 'x')), "\"name\" must be a text of at most 1024");
  ExpectRefused(with("genesis_digest", "00"), "64 hexadecimal digits");
  ExpectRefused(with("genesis_digest", std::string(64, 'z')), "64 hexadecimal digits");
  ExpectRefused(with("sealed", 1), "true or false");
  ExpectRefused(with("sealed", false), "must not have seal");
  ExpectRefused(with("first_header", 0), "\"first_header\" must be from 1 to 5");
  ExpectRefused(with("first_header", 6), "\"first_header\" must be from 1 to 5");
  ExpectRefused(with("first_header", 3), "\"state_version\" must be from 2 to 4");
  ExpectRefused(with("state_version", 5), "\"state_version\" must be from 0 to 4");
  ExpectRefused(with("state_version", nullptr), "must not have state");
  ExpectRefused(with("files", 1), "\"files\" must be a list");
  Json files = good["files"];
  files[0]["name"] = "../genesis";
  ExpectRefused(with("files", files), "\"../genesis\"");
  files = good["files"];
  files[1]["name"] = "genesis";
  ExpectRefused(with("files", files), "each once");
  files = good["files"];
  files[0]["bytes"] = uint64_t{1} << 60;
  ExpectRefused(with("files", files), "\"bytes\" must be a whole number");
  files = good["files"];
  files.erase(0);
  ExpectRefused(with("files", files), "lacks genesis");
}

TEST(SiteIndexTest, JsonMayNestSoDeepOnly) {
  // Broken: a list within a list within a list would take the whole stack of the reader.
  EXPECT_TRUE(ParseShallowJson("[{\"a\": \"[[[\\\"[\"}, {}, []]", 2).ok());
  for (const char* const wrong : {"[[[]]]", "[{\"a\": {}}]", "[", "", "]", "\"\\"}) {
    EXPECT_TRUE(absl::IsDataLoss(ParseShallowJson(wrong, 2).status())) << wrong;
  }
}

TEST(SiteIndexTest, OffsetsThatLieAreRefused) {
  // Broken: a table could make a reader look anywhere.
  const auto read = [](const std::vector<uint64_t>& offsets, uint64_t pieces, uint64_t bytes) {
    return DecodeOffsets(EncodeOffsets(offsets), pieces, bytes);
  };
  EXPECT_EQ(*read({0, 3, 3, 9}, 3, 9), (std::vector<uint64_t>{0, 3, 3, 9}));
  EXPECT_EQ(*read({0}, 0, 0), (std::vector<uint64_t>{0}));
  EXPECT_FALSE(read({0, 3, 9}, 3, 9).ok());
  EXPECT_FALSE(read({1, 3, 9}, 2, 9).ok());
  EXPECT_FALSE(read({0, 5, 3, 9}, 3, 9).ok());
  EXPECT_FALSE(read({0, 30, 9}, 2, 9).ok());
  EXPECT_FALSE(read({0, 3, 8}, 2, 9).ok());
}

}  // namespace
}  // namespace atolld
