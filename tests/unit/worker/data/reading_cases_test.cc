// The cases of reading_cases.json: files, and what is right of them. reading_test.py runs them
// against the Python worker's reader.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/unit/worker/training/fixtures.h"
#include "worker/data/chat_record.h"
#include "worker/data/conversations.h"
#include "worker/data/text_files.h"
#include "worker/data/token_source.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

template <typename T>
std::string LittleEndian(const Json& values) {
  std::string bytes;
  for (const Json& value : values) {
    const T one = value.get<T>();
    bytes.append(reinterpret_cast<const char*>(&one), sizeof one);
  }
  return bytes;
}

std::string ContentOf(const Json& parts) {
  std::string content;
  for (const Json& part : parts) {
    const std::string kind = part.begin().key();
    const Json& value = part.begin().value();
    if (kind == "text") content += value.get<std::string>();
    if (kind == "hex") content += absl::HexStringToBytes(value.get<std::string>());
    if (kind == "zeros") content.append(value.get<size_t>(), '\0');
    if (kind == "u1") content += LittleEndian<uint8_t>(value);
    if (kind == "u2") content += LittleEndian<uint16_t>(value);
    if (kind == "u4") content += LittleEndian<uint32_t>(value);
    if (kind == "i4") content += LittleEndian<int32_t>(value);
    if (kind == "u8") content += LittleEndian<uint64_t>(value);
    if (kind == "i8") content += LittleEndian<int64_t>(value);
  }
  return content;
}

std::vector<int64_t> IdsOf(const TokenSpan& split) {
  std::vector<int64_t> ids(split.size());
  split.Read(0, absl::MakeSpan(ids));
  return ids;
}

// One case in a folder of its own.
class ReadingCase {
 public:
  explicit ReadingCase(const Json& json) : json_(json) {
    for (const Json& file : json["files"]) {
      const std::string path = folder_ / file["path"].get<std::string>();
      std::filesystem::create_directories(std::filesystem::path(path).parent_path());
      std::ofstream(path, std::ios::binary) << ContentOf(file["parts"]);
    }
    text_.kind = json.value("kind", "text");
    text_.field = json.value("field", "");
    text_.skip_bad_lines = json.value("skip", false);
    text_.has_template = true;
  }

  void Check() {
    const bool is_text = json_.contains("texts") || json_.contains("chats");
    const absl::Status status = is_text || text_.kind == "chat" ? ReadText() : ReadTokens();
    if (json_.contains("says")) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(json_["says"].get<std::string>()));
      return;
    }
    EXPECT_TRUE(status.ok()) << status;
    for (const Json& note : json_.value("notes", Json::array())) {
      EXPECT_THAT(absl::StrJoin(notes_, "\n"), HasSubstr(note.get<std::string>()));
    }
  }

 private:
  absl::Status ReadTokens() {
    TokenSource::Options options;
    options.kind = text_.kind;
    options.field = text_.field;
    options.skip_bad_lines = text_.skip_bad_lines;
    options.width = json_.value("width", 0u);
    options.vocabulary = json_.value("vocabulary", TokenSource::kAnyVocabulary);
    options.validation_fraction = 0;
    const auto source = TokenSource::Open(folder_.path(), options);
    if (!source.ok()) return source.status();
    notes_ = (*source)->notes();
    const std::vector<int64_t> none;
    EXPECT_EQ(Json(IdsOf((*source)->train())), json_.value("train", Json(none)));
    EXPECT_EQ(Json(IdsOf((*source)->validation())), json_.value("validation", Json(none)));
    return absl::OkStatus();
  }

  absl::Status ReadText() {
    const auto files = OpenTextFiles(folder_.path(), text_);
    if (!files.ok()) return files.status();
    notes_ = files->notes;
    BadLines bad;
    Json texts = Json::array(), chats = Json::array();
    for (const TextFile& file : files->files) {
      const absl::Status status = ForEachDocument(
          file, {0, 0, file.size}, text_, &bad, [&](absl::string_view document) -> absl::Status {
            texts.push_back(std::string(document));
            if (text_.kind != "chat") return absl::OkStatus();
            const auto chat = ChatOfRecord(document, true);
            if (!chat.ok()) return chat.status();
            Json turns = Json::array();
            for (const ChatTurn& turn : chat->turns) turns.push_back({turn.role, turn.text});
            chats.push_back(turns);
            notes_.insert(notes_.end(), chat->unused.begin(), chat->unused.end());
            return absl::OkStatus();
          });
      if (!status.ok()) return status;
    }
    if (bad.count > 0) notes_.push_back(bad.Describe());
    EXPECT_EQ(texts, json_.value("texts", texts));
    EXPECT_EQ(chats, json_.value("chats", chats));
    return absl::OkStatus();
  }

  const Json json_;
  const TemporaryFolder folder_;
  TextOptions text_;
  std::vector<std::string> notes_;
};

// Broken: the same files would be other data to the one worker than to the other.
TEST(ReadingCasesTest, BothReadersHaveTheSameCases) {
  std::ifstream file(ATOLL_READING_CASES);
  const Json cases = Json::parse(file);
  ASSERT_GT(cases.size(), 50u);
  for (const Json& one : cases) {
    SCOPED_TRACE(one["name"].get<std::string>());
    ReadingCase(one).Check();
  }
}

}  // namespace
}  // namespace atolld
