#include "worker/hub/safetensors_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/unit/worker/model/models.h"
#include "worker/base/file_io.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

std::string File(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return absl::StrCat(file, header, std::string(data_bytes, '\1'));
}

absl::StatusOr<SafetensorsHeader> Parse(const std::string& file) {
  return ParseSafetensorsHeader(AsBytes(absl::MakeConstSpan(file.data(), file.size())));
}

const char kGood[] =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
    R"("b":{"dtype":"BF16","shape":[],"data_offsets":[24,26]}})";

// Broken: a damaged or hostile file would be read beyond its end, or as something else than it
// says, or its user would not learn what is wrong with it.
TEST(SafetensorsFileTest, EveryFaultIsOneLine) {
  ASSERT_TRUE(Parse(File(kGood, 26)).ok()) << Parse(File(kGood, 26)).status();
  const auto one = [](const std::string& fields) { return absl::StrCat("{\"a\":{", fields, "}}"); };
  const std::string f32 = R"("dtype":"F32",)";
  const struct {
    std::string file;
    const char* message;
  } cases[] = {
      {"", "it has 0 bytes, too few for a header"},
      {std::string(8, '\xff'), "its header is said to have 18446744073709551615 bytes"},
      {File(kGood, 26).substr(0, 60), "bytes; the file has 60"},
      {File("[]", 0), "its header: it is no JSON object"},
      {File("{\"a\":", 0), "its header: it is no JSON object"},
      {File(std::string(5000, '[') + "1", 0), "its header: it is"},
      {File(absl::StrCat("{\"a\":", std::string(100, '['), std::string(100, ']'), "}"), 0),
       "nested deeper than 32"},
      {File(absl::StrCat("{\"a\":1,", std::string(kGood).substr(1)), 26), "\"a\" is there twice"},
      {File(kGood, 25), "tensor b: bytes 24-26 are not within the file's 25"},
      {File(kGood, 27), "its tensors end at byte 26 of the data, which has 27"},
      {File(one(f32 + R"("shape":[1],"data_offsets":[4,0])"), 4), "bytes 4-0 are not within"},
      {File(one(f32 + R"("shape":[2],"data_offsets":[0,4])"), 4), "it has 4 bytes; F32 of shape"},
      {File(one(f32 + R"("shape":[4611686018427387905],"data_offsets":[0,4])"), 4), "it has 4"},
      {File(one(f32 + R"("shape":[4294967296,4294967296],"data_offsets":[0,0])"), 0), "it has 0"},
      {File(one(f32 + R"("shape":[-1],"data_offsets":[0,4])"), 4), "it needs a dtype, a shape"},
      {File(one(f32 + R"("shape":[1],"data_offsets":[0])"), 4), "it needs a dtype, a shape"},
      {File(one(f32 + R"("data_offsets":[0,4])"), 4), "it needs a dtype, a shape"},
      {File(one(R"("dtype":"F31","shape":[1],"data_offsets":[0,4])"), 4), "dtype \"F31\" is not"},
      {File(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
            R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
            12),
       "tensor b begins at byte 4, the ones before it end at 8"},
      {File(one(f32 + R"("shape":[1],"data_offsets":[4,8])"), 8),
       "tensor a begins at byte 4, the ones before it end at 0"},
  };
  for (const auto& bad : cases) {
    const auto parsed = Parse(bad.file);
    ASSERT_FALSE(parsed.ok()) << bad.message;
    EXPECT_TRUE(absl::IsDataLoss(parsed.status()));
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(bad.message));
    EXPECT_EQ(parsed.status().message().find('\n'), absl::string_view::npos);
  }
}

// Broken: some bytes would be taken for a tensor that is not within the file.
TEST(SafetensorsFileTest, AnyBytesAreAStatusOrTensorsWithinTheFile) {
  const std::string good = File(kGood, 26);
  Lcg lcg;
  int taken = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string file = good.substr(0, lcg.Next() % 4 == 0 ? lcg.Next() % good.size() : good.size());
    for (uint32_t i = lcg.Next() % 4; i > 0 && !file.empty(); --i) {
      // Digits and brackets lead further than other bytes do.
      const char* const likely = "0123456789[]{},:\"-";
      file[lcg.Next() % file.size()] =
          lcg.Next() % 2 == 0 ? likely[lcg.Next() % 18] : static_cast<char>(lcg.Next());
    }
    const auto parsed = Parse(file);
    if (!parsed.ok()) continue;
    ++taken;
    for (const auto& [name, tensor] : parsed->tensors) {
      ASSERT_LE(tensor.begin, tensor.end);
      ASSERT_LE(parsed->data_begin + tensor.end, file.size());
    }
  }
  EXPECT_GT(taken, 1000);  // else nothing was tried
}

}  // namespace
}  // namespace atolld
